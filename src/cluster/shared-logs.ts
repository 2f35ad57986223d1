import { isDeepStrictEqual } from 'node:util'
import { accessLogSettingsOf, fileOf } from '../services/access-log.ts'
import type { AccessLogConfig, AccessLogControl, AccessLogSettings } from '../services/access-log.ts'
import { LogFileError } from '../services/line-writer.ts'
import type { Log, RootLog } from '../services/log.ts'
import type { LogLevel } from '../services/log-settings.ts'
import type { PrimaryMessage, WorkerMessage } from './worker-messages.ts'
import type { WorkerPool } from './worker-pool.ts'

/** The log level of the primary and of its workers. */
export const sharedLogLevel = (log: RootLog, pool: Pick<WorkerPool, 'set'>): Pick<RootLog, 'level'> => ({
  get level() {
    return log.level
  },
  set level(level: LogLevel) {
    log.level = level
    pool.set({ kind: 'logLevel', level })
  },
})

type AccessLogRequest = Extract<PrimaryMessage, { readonly kind: 'accessLog' | 'reopenAccessLog' }>

/** A worker opens a file at once. */
const changeTimeoutMs = 5_000

/** The access logs of the workers: the primary has no calls. */
export class SharedAccessLog implements AccessLogControl {
  readonly #pool: Pick<WorkerPool, 'set' | 'newId' | 'requestAll'>
  #config: AccessLogConfig
  #settings: AccessLogSettings

  constructor(config: AccessLogConfig, pool: Pick<WorkerPool, 'set' | 'newId' | 'requestAll'>) {
    this.#pool = pool
    this.#config = config
    this.#settings = accessLogSettingsOf(config)
  }

  get settings(): AccessLogSettings {
    return this.#settings
  }

  get hasFile(): boolean {
    return fileOf(this.#config) !== undefined
  }

  /** Rejects with LogFileError when a worker cannot; then all workers have the settings from before. */
  async change(settings: AccessLogSettings): Promise<void> {
    const problem = await this.#request({ kind: 'accessLog', id: this.#pool.newId(), settings })
    if (problem === undefined) this.#settings = settings
    // For workers that start meanwhile or later; and for those that could, where another could not.
    this.#pool.set({ kind: 'accessLog', id: this.#pool.newId(), settings: this.#settings })
    if (problem !== undefined) throw new LogFileError(problem)
  }

  /** The workers have opened what the configuration names. Where nothing has changed, what was set over the admin listener stays. */
  reload(config: AccessLogConfig): void {
    if (isDeepStrictEqual(config, this.#config)) return
    this.#config = config
    this.#settings = accessLogSettingsOf(config)
    this.#pool.set({ kind: 'accessLog', id: this.#pool.newId(), settings: this.#settings })
  }

  /** Rejects with LogFileError when a worker cannot; that worker goes on with the file from before. */
  async reopen(): Promise<void> {
    const problem = await this.#request({ kind: 'reopenAccessLog', id: this.#pool.newId() })
    if (problem !== undefined) throw new LogFileError(problem)
  }

  /** The problem of the first worker that has one. */
  async #request(message: AccessLogRequest): Promise<string | undefined> {
    const replies = await this.#pool.requestAll(message, changeTimeoutMs)
    const problems = replies.flatMap(reply => (reply === 'exited' ? [] : reply === 'late' ? [workerTooLate] : (reply.problem ?? [])))
    return problems[0]
  }
}

const workerTooLate = `a worker did not change its access log within ${changeTimeoutMs / 1000} s`

/** Of a worker: does to its access log what the primary requests. Resolves with the answer. */
export const handleAccessLogRequest = async (request: AccessLogRequest, accessLog: AccessLogControl, log: Log): Promise<WorkerMessage> => {
  const { id } = request
  try {
    if (request.kind === 'accessLog') await changeAccessLog(accessLog, request.settings, log)
    else await accessLog.reopen()
    return { kind: 'accessLogSet', id }
  } catch (error) {
    return { kind: 'accessLogSet', id, problem: error instanceof Error ? error.message : String(error) }
  }
}

const changeAccessLog = async (accessLog: AccessLogControl, settings: AccessLogSettings, log: Log): Promise<void> => {
  try {
    await accessLog.change(settings)
  } catch (error) {
    log.error({ event: 'access-log-failed', err: error }, 'access log cannot be opened')
    throw error
  }
}
