import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import { reassignConnections } from '../runtime/connection-handover.ts'
import type { AcceptedConnections } from '../runtime/connection-handover.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Counter, MetricFamily, Metrics } from '../services/metrics.ts'
import { Backoff } from '../util/async.ts'
import { ReloadError } from '../core/running-networks.ts'
import type { PreparedReload, ReloadProblem } from '../core/reloader.ts'
import type { PrimaryMessage, WorkerChannel, WorkerMessage, WorkerSetting } from './worker-messages.ts'
import { ListeningEnd } from './listening-end.ts'
import { openWorkerChannel, spawnWorker, whenExited, whenReady, requestReply } from './worker-process.ts'
import type { WorkerExit, PrimaryRequest, ReplyKind, WorkerReply } from './worker-process.ts'

export { WorkerExitError, WorkerSpawnError } from './worker-process.ts'

export interface WorkerPoolOptions {
  /** The script that a worker runs, and its arguments. */
  readonly exec: string
  readonly args: readonly string[]
  readonly size: number
  readonly metrics: Metrics
  readonly env: Readonly<Record<string, string>>
  /** ms that a worker has to exit in, once it is to stop and its grace is over. */
  readonly stopTimeoutMs: number
  /** Of the configuration that workers start with. */
  readonly configId: string
  /** Those that are accepted for the workers. */
  readonly connections: AcceptedConnections
  /** Gets all messages of workers, and their exits. */
  readonly sharedHeads: { handleMessage(worker: WorkerChannel, message: WorkerMessage): void; removeWorker(worker: WorkerChannel): void }
}

/** A worker that exits sooner is restarted with a backoff, others at once. */
const minStableUptimeMs = 1000
const minRestartDelayMs = 100
const maxRestartDelayMs = 5000
/** Before the next attempt, when a replacement did not become ready. */
const retryDelayMs = 1000

/** A worker whose metrics take longer is left out. */
const metricsTimeoutMs = 1000
/** A reload is given up when a worker takes longer to prepare it. */
const reloadTimeoutMs = 30_000

/**
 * Rejects with WorkerSpawnError or WorkerExitError. The first worker starts alone: a mistake that every worker would report is
 * reported once.
 */
export const openWorkerPool = async (options: WorkerPoolOptions, clock: Clock, log: Log): Promise<WorkerPool> => {
  cluster.setupPrimary({ exec: options.exec, args: [...options.args] })
  const pool = new WorkerPool(options, clock, log)
  try {
    await pool.add()
    await Promise.all(Array.from({ length: options.size - 1 }, () => pool.add()))
    return pool
  } catch (error) {
    await pool.stop()
    throw error
  }
}

/** The worker processes of one gateway, for their primary. Starts workers, replaces each ready worker that exits, and stops them all. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions
  readonly #clock: Clock
  readonly #log: Log
  readonly #workers = new Map<Worker, SupervisedWorker>()
  readonly #ready = new Map<Worker, WorkerChannel>()
  /** What has been set since the start, by kind; the rest is as in the configuration. */
  readonly #settings = new Map<WorkerSetting['kind'], WorkerSetting>()
  readonly #exits: Counter
  readonly #listeningEnd: ListeningEnd
  #isStopping = false
  #lastRequestId = 0
  /** Of the configuration that all workers are to have. */
  #configId: string

  constructor(options: WorkerPoolOptions, clock: Clock, log: Log) {
    this.#options = options
    this.#exits = options.metrics.counter(metricDefinitions.workerExits, {})
    options.metrics.gauge(metricDefinitions.workersConfigured, {}).set(options.size)
    const ready = options.metrics.gauge(metricDefinitions.workersReady, {})
    options.metrics.collect(() => ready.set(this.readyCount))
    this.#configId = options.configId
    this.#clock = clock
    this.#log = log
    this.#listeningEnd = new ListeningEnd({ connections: options.connections, workers: () => this.#ready.values(), clock })
  }

  /** Workers that accept calls. */
  get readyCount(): number {
    return this.#ready.size
  }

  /** The metrics of each ready worker that answers within `metricsTimeoutMs`. */
  async metrics(): Promise<readonly (readonly MetricFamily[])[]> {
    const replies = await this.requestAll({ kind: 'metrics', id: this.newId() }, 'metrics', metricsTimeoutMs)
    return replies.flatMap(({ reply }) => (typeof reply === 'object' ? [reply.metrics] : []))
  }

  /**
   * Has every worker prepare a reload to the configuration of this id. Rejects with ReloadError when one cannot; then all have
   * abandoned it. A worker that exits meanwhile is replaced by one that reads the new files.
   */
  async prepareReload(configId: string): Promise<PreparedReload> {
    const id = this.newId()
    const end = (isCommitted: boolean) => this.send({ kind: 'endReload', id, isCommitted })
    const replies = await this.requestAll({ kind: 'prepareReload', id, configId }, 'reloadPrepared', reloadTimeoutMs)
    const problems = replies.flatMap(({ reply }) => (reply === 'late' ? [workerTooLate] : reply === 'exited' ? [] : reply.problems))
    if (problems.length > 0) {
      end(false)
      throw new ReloadError('a worker could not prepare the reload', withoutRepeats(problems))
    }
    return {
      abandon: async () => end(false),
      commit: () => {
        this.#configId = configId
        end(true)
        const prepared = new Set(replies.map(({ worker }) => worker))
        for (const worker of this.#ready.keys()) if (!prepared.has(worker)) void this.#reloadWorker(worker)
      },
    }
  }

  /** Resolves with one more worker when it is ready. Rejects with WorkerSpawnError or WorkerExitError. */
  async add(backoff = new Backoff({ minMs: minRestartDelayMs, maxMs: maxRestartDelayMs })): Promise<Worker> {
    const startedAt = this.#clock.monotonic()
    const worker = spawnWorker(this.#options.env)
    const channel = openWorkerChannel(worker)
    const exited = whenExited(worker, this.#log)
    reassignConnections(worker, () => this.#ready.keys())
    const endSearch = this.#options.connections.findListening(worker)
    this.#workers.set(worker, { channel, exited })
    worker.on('message', (message: WorkerMessage) =>
      message.kind === 'endListening' ? this.#listeningEnd.add(channel) : this.#options.sharedHeads.handleMessage(channel, message),
    )
    void exited.then(exit => {
      endSearch()
      const uptimeMs = this.#clock.monotonic() - startedAt
      if (this.#removeExited(worker, channel, exit)) this.#restart(backoff, uptimeMs)
    })
    const configId = await whenReady(worker, exited)
    endSearch()
    this.#ready.set(worker, channel)
    if (configId !== this.#configId) void this.#reloadWorker(worker)
    // What was sent while the worker was starting is lost: it did not handle messages yet.
    for (const setting of this.#settings.values()) channel.send(setting)
    if (this.#isStopping) channel.send({ kind: 'stop', graceMs: 0 })
    return worker
  }

  /** For all workers, those that are started later included. */
  set(setting: WorkerSetting): void {
    this.#settings.set(setting.kind, setting)
    this.send(setting)
  }

  /** To all ready workers. */
  send(message: PrimaryMessage): void {
    for (const channel of this.#ready.values()) channel.send(message)
  }

  /** For a message that is answered. */
  newId(): number {
    return (this.#lastRequestId += 1)
  }

  /** The replies of all ready workers. */
  requestAll<K extends ReplyKind>(message: PrimaryRequest, kind: K, timeoutMs: number): Promise<readonly WorkerReply<K>[]> {
    const requests = Array.from(this.#ready, async ([worker, channel]) => {
      const reply = await requestReply(worker, channel, { message, kind, timeoutMs }, this.#clock)
      return { worker, reply }
    })
    return Promise.all(requests)
  }

  /** Lets each worker serve on for `graceMs` and finish its calls. Resolves when all workers have exited; a worker that does not exit in time is killed. */
  async stop(graceMs = 0, timeoutMs = this.#options.stopTimeoutMs): Promise<void> {
    this.#isStopping = true
    await Promise.all(Array.from(this.#workers, each => this.#stopWorker(each, graceMs, timeoutMs)))
  }

  /** The worker was started with files from before, or after, the configuration of the others. */
  async #reloadWorker(worker: Worker): Promise<void> {
    const channel = this.#ready.get(worker)
    if (channel === undefined) return
    const [id, configId] = [this.newId(), this.#configId]
    const request = { message: { kind: 'prepareReload', id, configId }, kind: 'reloadPrepared', timeoutMs: reloadTimeoutMs } as const
    const reply = await requestReply(worker, channel, request, this.#clock)
    if (reply === 'exited') return
    const isCommitted = reply !== 'late' && reply.problems.length === 0 && configId === this.#configId
    channel.send({ kind: 'endReload', id, isCommitted })
    if (isCommitted) return
    this.#log.warn({ event: 'worker-config', worker: worker.process.pid }, 'worker has read files that were not reloaded yet: reload them')
  }

  /** True when the worker is to be replaced. */
  #removeExited(worker: Worker, channel: WorkerChannel, { code, signal }: WorkerExit): boolean {
    this.#options.sharedHeads.removeWorker(channel)
    this.#workers.delete(worker)
    const wasReady = this.#ready.delete(worker)
    this.#listeningEnd.checkWorkers()
    if (this.#isStopping || !wasReady) return false
    this.#exits.add()
    this.#log.warn({ event: 'worker-exited', worker: worker.process.pid, code, signal }, 'worker exited; restarting it')
    return true
  }

  #restart(backoff: Backoff, uptimeMs: number): void {
    if (uptimeMs >= minStableUptimeMs) backoff.reset()
    const delayMs = uptimeMs >= minStableUptimeMs ? 0 : backoff.next()
    this.#clock.after(delayMs, () => void this.#replace(backoff))
  }

  async #replace(backoff: Backoff): Promise<void> {
    if (this.#isStopping) return
    try {
      const worker = await this.add(backoff)
      this.#log.info({ event: 'worker-restarted', worker: worker.process.pid }, 'worker restarted')
    } catch (error) {
      this.#log.error({ event: 'worker-restart-failed', err: error }, `worker restart failed; next attempt in ${retryDelayMs} ms`)
      this.#clock.after(retryDelayMs, () => void this.#replace(backoff))
    }
  }

  async #stopWorker([worker, { channel, exited }]: readonly [Worker, SupervisedWorker], graceMs: number, timeoutMs: number): Promise<void> {
    channel.send({ kind: 'stop', graceMs })
    const timer = this.#clock.after(graceMs + timeoutMs, () => {
      this.#log.error({ event: 'worker-killed', worker: worker.process.pid }, 'worker did not exit in time; killing it')
      worker.process.kill('SIGKILL')
    })
    await exited
    timer.cancel()
  }
}

interface SupervisedWorker {
  readonly channel: WorkerChannel
  readonly exited: Promise<WorkerExit>
}

const workerTooLate: ReloadProblem = { message: `a worker did not prepare the reload within ${reloadTimeoutMs / 1000} s` }

/** Workers find the same problems. */
const withoutRepeats = (problems: readonly ReloadProblem[]): readonly ReloadProblem[] => [
  ...new Map(problems.map(problem => [JSON.stringify(problem), problem])).values(),
]
