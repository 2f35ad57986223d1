import type { FileTexts } from '../config/config-files.ts'
import type { PartialProblem } from '../config/problem.ts'
import { configId, formatReloadProblem } from '../core/config-changes.ts'
import { problemsOf } from '../core/reloader.ts'
import type { PreparedReload, Reloadable, ValidConfig } from '../core/reloader.ts'
import { ReloadError } from '../core/running-networks.ts'
import type { Log } from '../services/log.ts'
import { isReply } from '../util/channel.ts'
import type { SharedConfiguration, ToWorker, WorkerChannel } from './worker-messages.ts'

/** A reload is given up when a worker takes longer to prepare it. */
const prepareTimeoutMs = 30_000

/** A worker of the primary. */
interface ReloadedWorker extends WorkerChannel {
  readonly pid: number | undefined
}

interface SharedReloadOptions {
  /** With which workers start. */
  readonly configuration: SharedConfiguration
  /** Those that accept calls. */
  readonly workers: () => Iterable<ReloadedWorker>
  readonly log: Log
  /** The worker has committed by itself what the others had before: in it, too, what operators have set since is to be in force. */
  onFollowed?(worker: ReloadedWorker): void
}

/** Reloads of all workers at once, in their primary: all prepare before one of them commits. */
export class SharedReload {
  readonly #options: SharedReloadOptions
  #configuration: SharedConfiguration
  #lastId = 0
  /** Of workers that follow the others. */
  #following: Promise<unknown> = Promise.resolve()

  constructor(options: SharedReloadOptions) {
    this.#options = options
    this.#configuration = options.configuration
  }

  /** That all workers are to have. */
  get configuration(): SharedConfiguration {
    return this.#configuration
  }

  /**
   * Has every worker prepare a reload to this configuration. Rejects with ReloadError when one cannot; then all have
   * abandoned it. A worker that is started meanwhile follows when the others have committed; what it prepares then is not taken over by another
   * reload, which may come to nothing.
   */
  async prepare(configuration: SharedConfiguration): Promise<PreparedReload> {
    await this.#whenFollowed()
    const id = (this.#lastId += 1)
    const workers = new Set(this.#options.workers())
    const replies = await Promise.all(Array.from(workers, each => each.call('prepareReload', { id, ...configuration }, prepareTimeoutMs)))
    const problems = replies.flatMap(reply => (reply === 'late' ? [workerTooLate] : reply === 'exited' ? [] : reply))
    const end = (isCommitted: boolean): void => {
      for (const worker of this.#options.workers()) worker.send('endReload', { id, isCommitted })
    }
    if (problems.length > 0) {
      end(false)
      throw new ReloadError('a worker could not prepare the reload', withoutRepeats(problems))
    }
    return {
      abandon: async () => end(false),
      commit: () => {
        this.#configuration = configuration
        end(true)
        for (const worker of this.#options.workers()) if (!workers.has(worker)) this.#follow(worker)
      },
    }
  }

  /** The worker has become ready with the configuration of the others, or with that before a reload. */
  addWorker(worker: ReloadedWorker, configId: string): void {
    if (configId !== this.#configuration.configId) this.#follow(worker)
  }

  /** Workers that become ready while others are waited for are waited for too. */
  async #whenFollowed(): Promise<void> {
    const following = this.#following
    await following
    if (following !== this.#following) await this.#whenFollowed()
  }

  #follow(worker: ReloadedWorker): void {
    this.#following = Promise.all([this.#following, this.#reload(worker)]).then(() => undefined)
  }

  async #reload(worker: ReloadedWorker): Promise<void> {
    const [id, configuration] = [(this.#lastId += 1), this.#configuration]
    const reply = await worker.call('prepareReload', { id, ...configuration }, prepareTimeoutMs)
    if (reply === 'exited') return
    // Another reload has been committed meanwhile: the worker follows that one too.
    const isSuperseded = configuration !== this.#configuration
    const isCommitted = isReply(reply) && reply.length === 0 && !isSuperseded
    worker.send('endReload', { id, isCommitted })
    if (isCommitted) this.#options.onFollowed?.(worker)
    if (isCommitted || isSuperseded) return
    const reasons = (reply === 'late' ? [workerTooLate] : reply).map(({ hint: _hint, ...problem }) => formatReloadProblem(problem))
    const message = `worker has not the configuration of the others, restart the gateway: ${reasons.join('; ')}`
    this.#options.log.warn({ event: 'worker-config', worker: worker.pid }, message)
  }
}

const otherPluginCode: PartialProblem = {
  message: 'a worker has other code of a plugin than the primary',
  hint: 'restart the gateway',
}

const workerTooLate: PartialProblem = { message: `a worker did not prepare the reload within ${prepareTimeoutMs / 1000} s` }

/** Workers find the same problems. */
const withoutRepeats = (problems: readonly PartialProblem[]): readonly PartialProblem[] => [
  ...new Map(problems.map(problem => [JSON.stringify(problem), problem])).values(),
]

/** A worker's part in a reload: it prepares when the primary asks it to, and commits when all workers have prepared. */
export class WorkerReload {
  readonly #gateway: Reloadable
  readonly #readTexts: ReadTexts
  readonly #log: Log
  #prepared: { readonly id: number; readonly reload: PreparedReload } | undefined
  #lastEndedId = 0
  #latest: Promise<unknown> = Promise.resolve()

  constructor(gateway: Reloadable, readTexts: ReadTexts, log: Log) {
    this.#gateway = gateway
    this.#readTexts = readTexts
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

  async #prepareNext(request: PrepareRequest): Promise<readonly PartialProblem[]> {
    const { id } = request
    await this.#abandon()
    const problems = await this.#prepare(request)
    // Meanwhile the primary may have given up.
    if (this.#lastEndedId >= id) await this.#abandon()
    return problems
  }

  async #prepare({ id, configId: expectedId, texts }: PrepareRequest): Promise<readonly PartialProblem[]> {
    try {
      const config = await this.#readTexts(texts)
      if (!('networks' in config)) return config
      if (configId(config) !== expectedId) return [otherPluginCode]
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

/** The configuration of these texts in this process, or its problems. */
export type ReadTexts = (texts: FileTexts) => Promise<ValidConfig | readonly PartialProblem[]>

type PrepareRequest = ToWorker['prepareReload']['value']
