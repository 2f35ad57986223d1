import type { PartialProblem } from '../config/problem.ts'
import { configId } from '../core/config-changes.ts'
import { problemsOf } from '../core/reloader.ts'
import type { PreparedReload, ReadConfig, Reloadable } from '../core/reloader.ts'
import { ReloadError } from '../core/running-networks.ts'
import type { Log } from '../services/log.ts'
import { isReply } from './channel.ts'
import type { ToWorker, WorkerChannel } from './worker-messages.ts'

/** A reload is given up when a worker takes longer to prepare it. */
const prepareTimeoutMs = 30_000

/** A worker of the primary. */
interface ReloadedWorker extends WorkerChannel {
  readonly pid: number | undefined
}

interface SharedReloadOptions {
  /** Of the configuration that workers start with. */
  readonly configId: string
  /** Those that accept calls. */
  readonly workers: () => Iterable<ReloadedWorker>
  readonly log: Log
}

/** Reloads of all workers at once, in their primary: all prepare before one of them commits. */
export class SharedReload {
  readonly #options: SharedReloadOptions
  /** Of the configuration that all workers are to have. */
  #configId: string
  #lastId = 0

  constructor(options: SharedReloadOptions) {
    this.#options = options
    this.#configId = options.configId
  }

  /**
   * Has every worker prepare a reload to the configuration of this id. Rejects with ReloadError when one cannot; then all have
   * abandoned it. A worker that exits meanwhile is replaced by one that reads the new files.
   */
  async prepare(configId: string): Promise<PreparedReload> {
    const id = (this.#lastId += 1)
    const workers = new Set(this.#options.workers())
    const replies = await Promise.all(Array.from(workers, each => each.call('prepareReload', { id, configId }, prepareTimeoutMs)))
    const problems = replies.flatMap(reply => (reply === 'late' ? [workerTooLate] : reply === 'exited' ? [] : reply))
    const end = (isCommitted: boolean): void => {
      for (const worker of this.#options.workers()) worker.tell('endReload', { id, isCommitted })
    }
    if (problems.length > 0) {
      end(false)
      throw new ReloadError('a worker could not prepare the reload', withoutRepeats(problems))
    }
    return {
      abandon: async () => end(false),
      commit: () => {
        this.#configId = configId
        end(true)
        for (const worker of this.#options.workers()) if (!workers.has(worker)) void this.#reload(worker)
      },
    }
  }

  /** The worker has become ready with files from before, or after, the configuration of the others, or with the same. */
  addWorker(worker: ReloadedWorker, configId: string): void {
    if (configId !== this.#configId) void this.#reload(worker)
  }

  async #reload(worker: ReloadedWorker): Promise<void> {
    const [id, configId] = [(this.#lastId += 1), this.#configId]
    const reply = await worker.call('prepareReload', { id, configId }, prepareTimeoutMs)
    if (reply === 'exited') return
    const isCommitted = isReply(reply) && reply.length === 0 && configId === this.#configId
    worker.tell('endReload', { id, isCommitted })
    if (isCommitted) return
    this.#options.log.warn({ event: 'worker-config', worker: worker.pid }, 'worker has read files that were not reloaded yet: reload them')
  }
}

const workerTooLate: PartialProblem = { message: `a worker did not prepare the reload within ${prepareTimeoutMs / 1000} s` }

/** Workers find the same problems. */
const withoutRepeats = (problems: readonly PartialProblem[]): readonly PartialProblem[] => [
  ...new Map(problems.map(problem => [JSON.stringify(problem), problem])).values(),
]

/** A worker's part in a reload: it prepares when the primary asks it to, and commits when all workers have prepared. */
export class WorkerReload {
  readonly #gateway: Reloadable
  readonly #readConfig: ReadConfig
  readonly #log: Log
  #prepared: { readonly id: number; readonly reload: PreparedReload } | undefined
  #lastEndedId = 0
  #latest: Promise<unknown> = Promise.resolve()

  constructor(gateway: Reloadable, readConfig: ReadConfig, log: Log) {
    this.#gateway = gateway
    this.#readConfig = readConfig
    this.#log = log
  }

  /** Resolves with the problems. One after the other: of two at once, one would run on although nobody ends it. */
  prepare(request: PrepareRequest): Promise<readonly PartialProblem[]> {
    const problems = this.#latest.then(() => this.#prepareNext(request))
    this.#latest = problems
    return problems
  }

  end({ id, isCommitted }: ToWorker['endReload']['value']): void {
    this.#lastEndedId = Math.max(this.#lastEndedId, id)
    if (this.#prepared?.id !== id) return
    if (!isCommitted) return void this.#abandon()
    this.#prepared.reload.commit()
    this.#prepared = undefined
  }

  async #prepareNext({ id, configId: expectedId }: PrepareRequest): Promise<readonly PartialProblem[]> {
    await this.#abandon()
    const problems = await this.#prepare(id, expectedId)
    // Meanwhile the primary may have given up.
    if (this.#lastEndedId >= id) await this.#abandon()
    return problems
  }

  async #prepare(id: number, expectedId: string): Promise<readonly PartialProblem[]> {
    try {
      const config = await this.#readConfig('reload')
      if (!('networks' in config)) return config
      if (configId(config) !== expectedId) return [{ message: 'the files changed while the workers read them' }]
      this.#prepared = { id, reload: await this.#gateway.prepareReload(config) }
      return []
    } catch (error) {
      return problemsOf(error)
    }
  }

  async #abandon(): Promise<void> {
    const prepared = this.#prepared
    this.#prepared = undefined
    try {
      await prepared?.reload.abandon()
    } catch (error) {
      // The next reload is prepared all the same.
      this.#log.error({ err: error }, 'reload could not be abandoned')
    }
  }
}

type PrepareRequest = ToWorker['prepareReload']['value']
