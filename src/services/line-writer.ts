import { closeSync, constants, fstatSync, openSync, write, writeSync } from 'node:fs'
import type { Clock, Timer } from './clock.ts'

/** Writes lines one after another, and never waits for whoever reads them. */
export interface LineWriter {
  write(line: string): void
  /**
   * Opens the file anew under its name. Throws LogFileError when that fails; the log has a line then, and further lines go to the file
   * from before.
   */
  reopen(): void
  /** Resolves when what waits has been written or cannot be, at the latest after `maxCloseMs`: a pipe may not be read. */
  close(): Promise<void>
}

interface LineWriterOptions {
  readonly destination: string | 'stdout'
  readonly clock: Clock
  /** How long lines are collected, so that a line costs no system call; each line is written at once if absent. */
  readonly collectMs?: number
  /** Lines wait, for a cause that is new since all was written. */
  onFailed?(cause: string): void
  /** All is written again; so many lines were dropped meanwhile. */
  onRecovered(droppedLines: number): void
  /** For tests. */
  readonly writeBytes?: WriteBytes
}

/** The file cannot be written to. The message is for the operator. */
export class LogFileError extends Error {}

/** Calls `done` with an error, or with how many bytes have been written. */
export type WriteBytes = (fd: number, bytes: string | Buffer, done: (error: NodeJS.ErrnoException | null, written: number) => void) => void

/** Most bytes of one write. */
const fileWriteBytes = 65_536
/** Several processes write to one pipe: longer writes would mix their lines (PIPE_BUF). */
const pipeWriteBytes = 4_096
/** Lines are dropped when so much waits for a disk or a pipe. */
const maxWaitingBytes = 1_048_576
/** A pipe is full: how soon it is tried again. */
const fullPipeRetryMs = 10
const failedRetryMs = 1_000
const maxCloseMs = 1_000

let droppedLines = 0

/** How many lines the logs of this process have dropped. */
export const droppedLineCount = (): number => droppedLines

/** The constructor throws LogFileError when the file cannot be opened. */
export class BoundedLineWriter implements LineWriter {
  readonly #options: LineWriterOptions
  readonly #isFile: boolean
  readonly #chunkBytes: number
  readonly #writeBytes: WriteBytes
  readonly #timer: Timer | undefined
  #fd: number
  /** Whole lines, of `#chunkBytes` together unless one line is longer. */
  #chunks: string[] = []
  /** What has come since. */
  #lines = ''
  #linesBytes = 0
  /** The rest of the chunk that is being written. */
  #rest: string | Buffer = ''
  /** Of all that is not written yet. */
  #waitingBytes = 0
  /** That a chunk is being written to: it may be an older one than `#fd`. */
  #writingFd: number | undefined
  #retry: Timer | undefined
  #isPipeFull = false
  /** Since lines are dropped: further lines are too until all that waits is written, so that one place lacks lines. */
  #droppedLines = 0
  readonly #causes = new Set<string>()
  #isClosed = false
  #onClosed: (() => void) | undefined

  constructor(options: LineWriterOptions) {
    this.#options = options
    this.#isFile = options.destination !== 'stdout'
    this.#chunkBytes = this.#isFile ? fileWriteBytes : pipeWriteBytes
    this.#writeBytes = options.writeBytes ?? (this.#isFile ? writeInThread : writeAtOnce)
    this.#fd = this.#open()
    if (options.collectMs !== undefined) this.#timer = options.clock.every(options.collectMs, () => this.#flush())
  }

  write(line: string): void {
    const bytes = Buffer.byteLength(line)
    if (this.#droppedLines > 0 || this.#waitingBytes + bytes > maxWaitingBytes) return this.#drop()
    if (this.#linesBytes + bytes > this.#chunkBytes) this.#endChunk()
    this.#lines += line
    this.#linesBytes += bytes
    this.#waitingBytes += bytes
    if (this.#timer === undefined || this.#chunks.length > 0) this.#flush()
  }

  reopen(): void {
    if (!this.#isFile) return
    this.#flush()
    try {
      const previous = this.#fd
      this.#fd = this.#open()
      if (previous !== this.#writingFd) this.#closeDescriptor(previous)
    } catch (error) {
      this.#fail(error instanceof Error ? error.message : String(error))
      throw error
    }
  }

  async close(): Promise<void> {
    this.#timer?.cancel()
    await new Promise<void>(resolve => {
      const timeout = this.#options.clock.after(maxCloseMs, resolve)
      this.#onClosed = () => {
        timeout.cancel()
        resolve()
      }
      this.#flush()
    })
    this.#retry?.cancel()
    this.#isClosed = true
    if (this.#fd !== this.#writingFd) this.#closeDescriptor(this.#fd)
  }

  /** When the process ends: writes what waits before it returns, and gives up after `maxCloseMs`. Without a thread that writes. */
  closeSync(): void {
    for (let waitedMs = 0; waitedMs < maxCloseMs; waitedMs += fullPipeRetryMs) {
      this.#retry?.cancel()
      this.#retry = undefined
      this.#flush()
      if (!this.#isPipeFull) return
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, fullPipeRetryMs)
    }
  }

  #open(): number {
    return this.#isFile ? openForAppend(this.#options.destination) : openStdout()
  }

  #drop(): void {
    droppedLines += 1
    this.#droppedLines += 1
    this.#fail('lines are written too slowly: some are dropped')
  }

  #fail(cause: string): void {
    if (this.#causes.has(cause)) return
    this.#causes.add(cause)
    this.#options.onFailed?.(cause)
  }

  #endChunk(): void {
    if (this.#lines !== '') this.#chunks.push(this.#lines)
    this.#lines = ''
    this.#linesBytes = 0
  }

  #flush(): void {
    if (this.#writingFd !== undefined || this.#retry !== undefined) return
    if (this.#rest.length === 0) this.#takeChunk()
    if (this.#rest.length === 0) return this.#recover()
    const fd = this.#fd
    this.#writingFd = fd
    this.#writeBytes(fd, this.#rest, (error, written) => {
      this.#writingFd = undefined
      if (this.#isClosed || fd !== this.#fd) this.#closeDescriptor(fd)
      if (this.#isClosed) return
      this.#isPipeFull = error?.code === 'EAGAIN'
      if (error !== null) return this.#retryLater(error)
      this.#waitingBytes -= written
      this.#rest = written === Buffer.byteLength(this.#rest) ? '' : Buffer.from(this.#rest).subarray(written)
      this.#flush()
    })
  }

  #takeChunk(): void {
    if (this.#chunks.length === 0) this.#endChunk()
    this.#rest = this.#chunks.shift() ?? ''
  }

  #retryLater(error: NodeJS.ErrnoException): void {
    if (!this.#isPipeFull) {
      this.#fail(error.code ?? error.message)
      this.#onClosed?.()
    }
    this.#retry = this.#options.clock.after(this.#isPipeFull ? fullPipeRetryMs : failedRetryMs, () => {
      this.#retry = undefined
      this.#flush()
    })
  }

  #recover(): void {
    const dropped = this.#droppedLines
    this.#droppedLines = 0
    if (this.#causes.size > 0) {
      this.#causes.clear()
      this.#options.onRecovered(dropped)
    }
    this.#onClosed?.()
  }

  #closeDescriptor(fd: number): void {
    if (fd !== process.stdout.fd) closeSync(fd)
  }
}

/** For descriptors that do not block: lines leave in order, also when the process ends with the next statement. */
const writeAtOnce: WriteBytes = (fd, bytes, done) => {
  let written: number
  try {
    written = typeof bytes === 'string' ? writeSync(fd, bytes) : writeSync(fd, bytes)
  } catch (error) {
    return done(error as NodeJS.ErrnoException, 0) // what fs throws
  }
  done(null, written)
}

/** A disk may be slow for seconds: only a thread waits for it. */
const writeInThread: WriteBytes = (fd, bytes, done) => write(fd, typeof bytes === 'string' ? Buffer.from(bytes) : bytes, done)

/**
 * Standard output as a descriptor that does not block, whoever shares it. A process that waits for a reader serves no call, and one of
 * whose threads waits cannot exit. A file is written where whoever started the gateway has left off; it does not block for a reader.
 */
const openStdout = (): number => {
  // Node.js makes pipes and sockets non-blocking when it opens them here.
  const { fd } = process.stdout
  if (fstatSync(fd).isFile()) return fd
  try {
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
  } catch {
    return fd // a socket, a pipe of another user, or no Linux
  }
}

/** For its owner to write, and its group to read. */
const openForAppend = (file: string): number => {
  try {
    return openSync(file, 'a', 0o640)
  } catch (error) {
    throw new LogFileError(`cannot open the log file: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}
