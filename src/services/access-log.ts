import { isFailure } from '../plugin/reply.ts'
import type { Reply } from '../plugin/reply.ts'
import type { Clock } from './clock.ts'
import { BoundedLineWriter } from './line-writer.ts'
import type { LineWriter, WriteBytes } from './line-writer.ts'
import type { Log } from './log.ts'
import type { MaybePromise } from '../util/async.ts'
import { cutAndMaskKeys } from '../util/key-mask.ts'
import { asciiJson } from '../util/printable-text.ts'

/** A call that took so long is logged whatever `sample` is, as each error is. */
const slowMs = 1_000

/** Where lines go: nowhere, to standard output, or to the file of gateway.yaml. */
type AccessLogTarget = 'none' | 'stdout' | 'file'

/** What may be changed while the gateway runs. */
export interface AccessLogSettings {
  readonly target: AccessLogTarget
  /** The share of calls that is logged, from 0 to 1. */
  readonly sample: number
}

/** A call, or an HTTP response without a call. Its line never has a key, an account or params. */
interface AccessLogEntry {
  readonly requestId: string
  readonly network?: string | undefined
  readonly transport?: string | undefined
  readonly method?: string | undefined
  /** The HTTP status of the response; a message over WebSocket has none. */
  readonly status?: number | undefined
  /** Undefined when the caller left before there was one. */
  readonly reply?: Reply | undefined
  readonly durationMs?: number | undefined
  readonly bytesReceived?: number | undefined
  readonly bytesSent?: number | undefined
  /** The number of calls in the batch that the call is part of. */
  readonly batchSize?: number | undefined
  /** For an observer: not part of the line. */
  readonly accountId?: string | undefined
}

/** Gets each call, whatever is logged. */
export type CallObserver = (entry: AccessLogEntry) => void

/** The access log of all processes of a gateway, as its admin listener sees it. */
export interface AccessLogControl {
  readonly settings: AccessLogSettings
  /** Does gateway.yaml name a file? */
  readonly hasFile: boolean
  /** Throws LogFileError, or rejects with it, when the file cannot be opened; then nothing is changed. */
  change(settings: AccessLogSettings): MaybePromise<void>
  /** Opens the file anew under its name, after logrotate has renamed it. Throws LogFileError, or rejects with it, as change() does. */
  reopen(): MaybePromise<void>
}

/** The access log of a configuration that is being reloaded. One of the two must be called. */
export interface PreparedAccessLog {
  commit(): void
  abandon(): Promise<void>
}

interface AccessLogOptions {
  readonly settings: AccessLogSettings
  /** What `file` means as a target. */
  readonly file?: string | undefined
  readonly clock: Clock
  openWriter(destination: string): LineWriter
  readonly observer?: CallObserver | undefined
  /** From 0 to below 1. */
  readonly random?: () => number
}

/**
 * One line a call. While it is off, a call costs one look at `isOn`. When each call is logged to a file, a cached call takes 1.08 to
 * 1.12 times the CPU; when only errors and slow calls are, 1.00 to 1.02 times. A spread of an object on this way takes 3 us a call.
 */
export class AccessLog implements AccessLogControl {
  readonly #options: AccessLogOptions
  readonly #random: () => number
  #settings: AccessLogSettings
  #file: string | undefined
  #writer: LineWriter | undefined
  /** Are calls logged, or observed? Set by #useWriter() alone. */
  isOn = false

  constructor(options: AccessLogOptions) {
    this.#options = options
    this.#random = options.random ?? Math.random
    this.#settings = options.settings
    this.#file = options.file
    this.#useWriter(this.#openWriter(options.settings, options.file))
  }

  get settings(): AccessLogSettings {
    return this.#settings
  }

  get hasFile(): boolean {
    return this.#file !== undefined
  }

  change(settings: AccessLogSettings): void {
    if (settings.target !== this.#settings.target) this.#replaceWriter(this.#openWriter(settings, this.#file))
    this.#settings = settings
  }

  /** Opens what the configuration names. Throws LogFileError when that cannot be opened. */
  prepare(config: AccessLogConfig): PreparedAccessLog {
    const [settings, file] = [accessLogSettingsOf(config), fileOf(config)]
    const writer = this.#openWriter(settings, file)
    return {
      commit: () => {
        this.#replaceWriter(writer)
        this.#settings = settings
        this.#file = file
      },
      abandon: async () => writer?.close(),
    }
  }

  /** The time from which the duration of a request is measured; undefined while calls are not logged. */
  startTimer(): number | undefined {
    return this.isOn ? this.#options.clock.monotonic() : undefined
  }

  /** ms since startTimer(). */
  durationSince(startedAtMs: number | undefined): number | undefined {
    return startedAtMs === undefined ? undefined : this.#options.clock.monotonic() - startedAtMs
  }

  record(entry: AccessLogEntry): void {
    if (this.#writer !== undefined && this.#isSelected(entry)) this.#writer.write(formatEntry(entry, this.#options.clock.now()))
    this.#options.observer?.(entry)
  }

  reopen(): void {
    this.#writer?.reopen()
  }

  /** Nothing more is logged. Resolves when what waits has been written, or cannot be. */
  async close(): Promise<void> {
    const writer = this.#writer
    this.#useWriter(undefined)
    await writer?.close()
  }

  #replaceWriter(writer: LineWriter | undefined): void {
    void this.close()
    this.#useWriter(writer)
  }

  #useWriter(writer: LineWriter | undefined): void {
    this.#writer = writer
    this.isOn = writer !== undefined || this.#options.observer !== undefined
  }

  #openWriter({ target }: AccessLogSettings, file = 'stdout'): LineWriter | undefined {
    return target === 'none' ? undefined : this.#options.openWriter(target === 'file' ? file : 'stdout')
  }

  #isSelected({ reply, status = 200, durationMs = 0 }: AccessLogEntry): boolean {
    const { sample } = this.#settings
    if (sample >= 1 || status >= 400 || durationMs >= slowMs || (reply !== undefined && isFailure(reply))) return true
    return sample > 0 && this.#random() < sample
  }
}

/** Logs nothing. */
export const noAccessLog: Pick<AccessLog, 'isOn' | 'startTimer' | 'durationSince'> = {
  isOn: false,
  startTimer: () => undefined,
  durationSince: () => undefined,
}

/** As gateway.yaml has it: `file` is `stdout` or an absolute path. */
export interface AccessLogConfig {
  readonly file?: string
  readonly sample: number
}

export const accessLogSettingsOf = ({ file, sample }: AccessLogConfig): AccessLogSettings => ({
  target: file === undefined ? 'none' : file === 'stdout' ? 'stdout' : 'file',
  sample,
})

/** Standard output is no file. */
export const fileOf = ({ file }: AccessLogConfig): string | undefined => (file === 'stdout' ? undefined : file)

/** Throws LogFileError when the file cannot be opened. */
export const openAccessLog = (config: AccessLogConfig, clock: Clock, log: Log, observer?: CallObserver): AccessLog =>
  new AccessLog({
    settings: accessLogSettingsOf(config),
    file: fileOf(config),
    clock,
    observer,
    openWriter: destination => openAccessLogWriter(destination, clock, log),
  })

const collectMs = 1_000

/** A disk that is full fails each write: one line for each cause when it begins, one when all is written again. */
export const openAccessLogWriter = (destination: string, clock: Clock, log: Log, writeBytes?: WriteBytes): LineWriter =>
  new BoundedLineWriter({
    destination,
    clock,
    collectMs,
    ...(writeBytes && { writeBytes }),
    onFailed: cause => log.error({ event: 'access-log-failed', cause }, 'access log cannot be opened or written'),
    onRecovered: droppedLines =>
      log.info({ event: 'access-log-written', droppedLines }, `access log is written again: ${droppedLines} lines were dropped`),
  })

const prefix = `${JSON.stringify({ level: 30, pid: process.pid, event: 'access' }).slice(0, -1)},"time":`

/** Written out: JSON.stringify() of an object takes 1.5 us, this takes 0.5. Members that are unknown are left out. */
const formatEntry = (entry: AccessLogEntry, now: number): string => {
  const { requestId, network, transport, method, status, reply, durationMs, bytesReceived, bytesSent, batchSize } = entry
  let line = `${prefix}${now},"requestId":"${requestId}"`
  if (network !== undefined) line += `,"network":"${network}","transport":"${transport}"`
  if (method !== undefined) line += `,"method":${quote(method)}`
  if (status !== undefined) line += `,"status":${status}`
  if (reply !== undefined) line += formatReply(reply)
  if (durationMs !== undefined) line += `,"durationMs":${roundToMicroseconds(durationMs)}`
  if (bytesReceived !== undefined) line += `,"bytesReceived":${bytesReceived}`
  if (bytesSent !== undefined) line += `,"bytesSent":${bytesSent}`
  if (batchSize !== undefined) line += `,"batchSize":${batchSize}`
  return `${line},"msg":"access"}\n`
}

const formatReply = (reply: Reply): string => {
  const { cache, credits, upstream, upstreamRequest } = reply
  let members = isFailure(reply) ? `,"outcome":"${reply.kind}","rpcCode":${reply.error.code}` : ',"outcome":"ok"'
  if (cache !== undefined) members += `,"cache":"${cache}"`
  if (credits !== undefined) members += `,"credits":${credits}`
  if (upstream !== undefined) members += `,"upstream":${quote(upstream)}`
  if (!isFailure(reply) && reply.verified !== undefined) members += `,"verified":"${reply.verified}"`
  if (upstreamRequest === undefined) return members
  const { id, attempts, durationMs } = upstreamRequest
  return `${members},"attempts":${attempts},"upstreamDurationMs":${roundToMicroseconds(durationMs)},"upstreamRequestId":"${id}"`
}

const roundToMicroseconds = (ms: number): number => Math.round(ms * 1000) / 1000

const maxTextChars = 100

/** A method name comes from the caller: it is shortened, without API keys, and escaped where it has to be. */
const quote = (text: string): string => asciiJson(cutAndMaskKeys(text, maxTextChars))
