import { openSync } from 'node:fs'
import { pino } from 'pino'
import type { DestinationStream, Logger } from 'pino'
import { toSourceLines } from '../runtime/source-lines.ts'
import type { Clock } from './clock.ts'

/** pino's levels, lowest first. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export type LogLevel = (typeof logLevels)[number]

export const isLogLevel = (value: unknown): value is LogLevel => (logLevels as readonly unknown[]).includes(value)

/** One JSON object a line: fields, then a short message; never an API key, never an upstream's URL. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** The same log with these fields on each line. */
  child(fields: object): Log
}

/** The log of a process. Its level holds for the children too, also when it is set later. */
export interface RootLog extends Log {
  level: LogLevel
}

/** Writes synchronously, so that no line is lost when the process ends. */
const openStdout = (): DestinationStream => {
  const open = () => {
    const destination = pino.destination({ fd: 1, sync: true, maxLength: maxUnwrittenBytes })
    // The disk is full, or the terminal is closed: the gateway serves on. What could not be written is dropped when it is too long.
    return destination.on('error', () => undefined).on('drop', () => void (stdout = open()))
  }
  let stdout = open()
  return { write: line => void stdout.write(line) }
}

const maxUnwrittenBytes = 65_536

/** Writes to stdout unless a destination is given. */
export const openLog = (level: LogLevel, destination = openStdout()): RootLog => {
  // pino sets the level of a child once, when it is made. Each reload makes new children, one for each plugin; the old ones are freed.
  let children: readonly WeakRef<Logger>[] = []
  const onChild = (child: Logger) => {
    children = [...children.filter(each => each.deref() !== undefined), new WeakRef(child)]
  }
  const root = pino({ level, base: { pid: process.pid }, serializers: { stack: formatStack }, onChild }, destination)
  // The children inherit the listener.
  root.on('level-change', (next, _value, _previous, _previousValue, changed) => {
    if (changed !== root) return
    for (const child of children) {
      const logger = child.deref()
      if (logger !== undefined) logger.level = next
    }
  })
  return root as RootLog // `level` is set to levels of pino alone
}

const formatStack = (stack: unknown): unknown => (typeof stack === 'string' ? toSourceLines(stack) : stack)

/** Writes lines of ASCII; buffered, so that a line costs no system call. */
export interface LineWriter {
  write(line: string): void
  /**
   * Opens the file anew under its name. Throws LogFileError when that fails; the log has a line then, and further lines go to the file
   * from before.
   */
  reopen(): void
  /** Resolves when what is buffered has been written, or cannot be. */
  close(): Promise<void>
}

/** The file cannot be written to. The message is for the operator. */
export class LogFileError extends Error {}

const flushIntervalMs = 1_000
/** Most bytes of one write. */
const fileWriteBytes = 65_536
/** Several processes write to one pipe: longer writes would mix their lines (PIPE_BUF). */
const pipeWriteBytes = 4_096
/** Lines are dropped when so much waits for a disk or a pipe. */
const maxWaitingBytes = 1_048_576

/**
 * Writes lines to standard output, or to a file. Throws LogFileError when the file cannot be opened; what fails later is reported
 * to `log`. Lines are collected here, as pino's destination measures all that it has collected with each further line.
 */
export const openLineWriter = (file: string | 'stdout', clock: Clock, log: Log): LineWriter => {
  const isFile = file !== 'stdout'
  const writeBytes = isFile ? fileWriteBytes : pipeWriteBytes
  const limits = { minLength: 1, maxLength: maxWaitingBytes, maxWrite: writeBytes }
  const report = reportOnChange(log)
  const open = (): ReturnType<typeof pino.destination> => {
    const opened = pino.destination({ dest: isFile ? openForAppend(file) : 1, sync: false, ...limits })
    opened.on('error', (error: NodeJS.ErrnoException) => report(error.code ?? error.message))
    opened.on('drop', () => {
      report('lines are written too slowly: some are dropped')
      // After a failed write only this writes again: a write() that drops its lines does not.
      opened.flush()
    })
    return opened.on('drain', () => report(undefined))
  }
  let destination = open()
  let lines = ''
  const flush = (): void => {
    if (lines !== '') destination.write(lines)
    lines = ''
  }
  const timer = clock.every(flushIntervalMs, flush)
  return {
    write(line) {
      if (lines.length + line.length > writeBytes) flush()
      lines += line
    },
    reopen() {
      if (!isFile) return
      flush()
      const previous = destination
      try {
        destination = open()
        previous.end()
      } catch (error) {
        report(error instanceof Error ? error.message : String(error))
        throw error
      }
    },
    async close() {
      timer.cancel()
      flush()
      await new Promise<void>(resolve => destination.flush(() => resolve()))
      if (isFile) destination.end()
    },
  }
}

/** A disk that is full fails each write: one line for each cause when it begins, one when all is written again. */
const reportOnChange = (log: Log): ((cause: string | undefined) => void) => {
  const current = new Set<string>()
  return cause => {
    if (cause === undefined ? current.size === 0 : current.has(cause)) return
    if (cause === undefined) {
      current.clear()
      log.info({ event: 'access-log-written' }, 'access log is written again')
    } else {
      current.add(cause)
      log.error({ event: 'access-log-failed', cause }, 'access log cannot be opened or written')
    }
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
