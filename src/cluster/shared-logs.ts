import { isDeepStrictEqual } from 'node:util'
import { accessLogSettingsOf, fileOf } from '../services/access-log.ts'
import type { AccessLogConfig, AccessLogControl, AccessLogSettings } from '../services/access-log.ts'
import { LogFileError } from '../services/line-writer.ts'
import type { Log, RootLog } from '../services/log.ts'
import type { LogLevel } from '../services/log-settings.ts'
import type { MaybePromise } from '../util/async.ts'
import type { NoReply } from '../util/channel.ts'
import type { WorkerProblem } from './worker-messages.ts'
import type { WorkerPool } from './worker-pool.ts'

/** The log level of the primary and of its workers. */
export const sharedLogLevel = (log: RootLog, pool: Pick<WorkerPool, 'set'>): Pick<RootLog, 'level'> => ({
  get level() {
    return log.level
  },
  set level(level: LogLevel) {
    log.level = level
    pool.set('logLevel', worker => worker.send('logLevel', { level }))
  },
})

/** A worker opens a file at once. */
const changeTimeoutMs = 5_000

/** The access logs of the workers: the primary has no calls. */
export class SharedAccessLog implements AccessLogControl {
  readonly #pool: Pick<WorkerPool, 'set' | 'callAll'>
  #config: AccessLogConfig
  #settings: AccessLogSettings

  constructor(config: AccessLogConfig, pool: Pick<WorkerPool, 'set' | 'callAll'>) {
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
    const problem = firstProblemOf(await this.#pool.callAll('accessLog', settings, changeTimeoutMs))
    if (problem === undefined) this.#settings = settings
    // For workers that start meanwhile or later; and for those that could, where another could not.
    this.#setAll()
    if (problem !== undefined) throw new LogFileError(problem)
  }

  /** The workers have opened what the configuration names. Where nothing has changed, what was set over the admin listener stays. */
  reload(config: AccessLogConfig): void {
    if (isDeepStrictEqual(config, this.#config)) return
    this.#config = config
    this.#settings = accessLogSettingsOf(config)
    this.#setAll()
  }

  /** Rejects with LogFileError when a worker cannot; that worker goes on with the file from before. */
  async reopen(): Promise<void> {
    const problem = firstProblemOf(await this.#pool.callAll('reopenAccessLog', undefined, changeTimeoutMs))
    if (problem !== undefined) throw new LogFileError(problem)
  }

  #setAll(): void {
    const settings = this.#settings
    this.#pool.set('accessLog', worker => void worker.call('accessLog', settings, changeTimeoutMs))
  }
}

const firstProblemOf = (replies: readonly (WorkerProblem | NoReply)[]): string | undefined =>
  replies.flatMap(reply => (reply === 'exited' ? [] : reply === 'late' ? [workerTooLate] : (reply.problem ?? [])))[0]

const workerTooLate = `a worker did not change its access log within ${changeTimeoutMs / 1000} s`

/** Of a worker: the reply to a call that changes its access log. */
export const problemOf = async (change: () => MaybePromise<void>): Promise<WorkerProblem> => {
  try {
    await change()
    return {}
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}

export const changeAccessLog = async (accessLog: AccessLogControl, settings: AccessLogSettings, log: Log): Promise<void> => {
  try {
    await accessLog.change(settings)
  } catch (error) {
    log.error({ event: 'access-log-failed', err: error }, 'access log cannot be opened')
    throw error
  }
}
