import cluster from 'node:cluster'
import { reassignConnections } from '../runtime/connection-handover.ts'
import type { AcceptedConnections } from '../runtime/connection-handover.ts'
import type { PreparedReload } from '../core/reloader.ts'
import { whenQuiet } from '../server/connection-pacing.ts'
import type { Clock, Timer } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Counter, MetricFamily, Metrics } from '../services/metrics.ts'
import type { TlsTexts } from '../services/tls-files.ts'
import type { NodeStatus } from '../services/node-status.ts'
import type { PluginProblem } from '../services/plugin-problems.ts'
import type { ProcessTraffic } from '../services/traffic/process-traffic.ts'
import { Backoff, sleep, withTimeoutOr } from '../util/async.ts'
import { isReply } from '../util/channel.ts'
import type { CallName, Handlers, NoReply, ReplyOf, ValueOf } from '../util/channel.ts'
import { WorkerCounts } from './merge-metrics.ts'
import { SharedReload } from './shared-reload.ts'
import type { SharedConfiguration, ToPrimary, ToWorker, WorkerChannel } from './worker-messages.ts'
import { recallTimeoutMs } from './worker-messages.ts'
import { spawnWorker } from './worker-process.ts'
import type { WorkerExit, WorkerProcess } from './worker-process.ts'

export interface WorkerPoolOptions {
  /** The script that a worker runs, and its arguments. */
  readonly exec: string
  readonly args: readonly string[]
  readonly size: number
  readonly metrics: Metrics
  readonly env: Readonly<Record<string, string>>
  /** ms that a worker has to exit in, once it is to stop. */
  readonly stopTimeoutMs: number
  /** With which workers start. */
  readonly configuration: SharedConfiguration
  /** Undefined without TLS. */
  tlsTexts?(): TlsTexts | undefined
  /** Those that are accepted for the workers. */
  readonly connections: AcceptedConnections
  /** Of what does not concern the pool itself. */
  handlersOf(worker: WorkerChannel): Omit<Handlers<ToPrimary>, 'ready' | 'startFailed' | 'configuration' | 'recallCredits'>
  /** The worker has exited, or could not be started: it gets no more messages. */
  onExit(worker: WorkerChannel): void
}

/** A worker that exits sooner is restarted with a backoff, others at once. */
const minStableUptimeMs = 1000
const minRestartDelayMs = 100
const maxRestartDelayMs = 5000
/** Before the next attempt, when a replacement did not become ready: doubled each time. A file that is broken may be so for long. */
const retryBackoff = { minMs: 1000, maxMs: 10_000 }

/** Connections wait for the last worker to start for so long: those of all callers who reconnect at once would stay with the first. */
const maxHoldMs = 5000
/** When all workers are gone, new connections wait for the next one for so long: on a busy machine it takes 6 to 10 s to start. */
const maxUnusedMs = 15_000

/** Workers are to take the last connections within this time; one that is stopped (SIGSTOP) may keep one for longer. */
const maxHandoverMs = 1000

/** A worker whose gauges, traffic or states of nodes take longer is left out. */
const metricsTimeoutMs = 1000

/**
 * Rejects with WorkerSpawnError or WorkerExitError. The first worker starts alone: a mistake that every worker would report is
 * reported once.
 */
export const openWorkerPool = async (options: WorkerPoolOptions, clock: Clock, log: Log): Promise<WorkerPool> => {
  cluster.setupPrimary({ exec: options.exec, args: [...options.args] })
  const pool = new WorkerPool(options, clock, log)
  const { connections } = options
  connections.hold()
  try {
    await pool.add()
    const timer = clock.after(maxHoldMs, () => connections.release())
    await Promise.all(Array.from({ length: options.size - 1 }, () => pool.add())).finally(() => timer.cancel())
    connections.release()
    return pool
  } catch (error) {
    connections.release()
    await pool.stop()
    throw error
  }
}

/** The worker processes of one gateway, for their primary. Starts workers, replaces each ready worker that exits, and stops them all. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions
  readonly #clock: Clock
  readonly #log: Log
  readonly #workers = new Set<WorkerProcess>()
  /** Those that accept calls. */
  readonly #ready = new Set<WorkerProcess>()
  /** What has been set since the start, by name; the rest is as in the configuration. */
  readonly #settings = new Map<string, (worker: WorkerChannel) => void>()
  readonly #counts = new WorkerCounts<WorkerProcess>()
  readonly #exits: Counter
  readonly #reload: SharedReload
  /** Of a port that no worker listens on. */
  #closing: Timer | undefined
  #isStopping = false

  constructor(options: WorkerPoolOptions, clock: Clock, log: Log) {
    const { metrics, size, configuration } = options
    this.#options = options
    this.#exits = metrics.counter(metricDefinitions.workerExits, {})
    const ready = metrics.gauge(metricDefinitions.workers, { state: 'ready' })
    const missing = metrics.gauge(metricDefinitions.workers, { state: 'missing' })
    metrics.collect(() => {
      ready.set(this.readyCount)
      missing.set(size - this.readyCount)
    })
    this.#clock = clock
    this.#log = log
    this.#reload = new SharedReload({
      configuration,
      workers: () => this.#ready,
      log,
      onFollowed: worker => this.#applySettings(worker),
    })
  }

  /** Workers that accept calls. */
  get readyCount(): number {
    return this.#ready.size
  }

  /** The metrics of each ready worker; of one that does not answer within `metricsTimeoutMs`, or has exited, what it had counted. */
  async metrics(): Promise<readonly (readonly MetricFamily[])[]> {
    const read = async (worker: WorkerProcess) => {
      const reply = await worker.call('metrics', undefined, metricsTimeoutMs, families => this.#counts.record(worker, families))
      return [worker, isReply(reply) ? reply : undefined] as const
    }
    return this.#counts.complete(new Map(await Promise.all(Array.from(this.#ready, read))))
  }

  /** What calls meet at the nodes, as each of these workers has it. */
  async nodes(): Promise<readonly NodeStatus[]> {
    const replies = await this.callAll('nodes', undefined, metricsTimeoutMs)
    return replies.filter(isReply).flat()
  }

  /** What plugins report, as each of these workers has it. */
  async problems(): Promise<readonly PluginProblem[]> {
    const replies = await this.callAll('problems', undefined, metricsTimeoutMs)
    return replies.filter(isReply).flat()
  }

  async traffic(): Promise<readonly ProcessTraffic[]> {
    const replies = await this.callAll('traffic', undefined, metricsTimeoutMs)
    return replies.filter(isReply)
  }

  /** See SharedReload. */
  prepareReload(configuration: SharedConfiguration): Promise<PreparedReload> {
    return this.#reload.prepare(configuration)
  }

  /** Resolves with one more worker when it is ready. Rejects with WorkerSpawnError or WorkerExitError. */
  async add(backoff = new Backoff({ minMs: minRestartDelayMs, maxMs: maxRestartDelayMs })): Promise<WorkerProcess> {
    const startedAt = this.#clock.monotonic()
    const worker = spawnWorker(this.#options.env, this.#clock, this.#log)
    reassignConnections(worker.clusterWorker, () => Array.from(this.#ready, ready => ready.clusterWorker))
    this.#options.connections.addWorker(worker.clusterWorker)
    this.#workers.add(worker)
    const ready = worker.start({
      ...this.#options.handlersOf(worker),
      configuration: (_, reply) =>
        reply({
          startedWith: this.#options.configuration.texts,
          texts: this.#reload.configuration.texts,
          tlsTexts: this.#options.tlsTexts?.(),
        }),
      recallCredits: (recall, reply) => void this.#returnCredits(recall, worker).then(reply),
    })
    void worker.exited.then(exit => {
      const uptimeMs = this.#clock.monotonic() - startedAt
      if (this.#removeExited(worker, exit)) this.#restart(backoff, uptimeMs)
    })
    const configId = await ready
    this.#ready.add(worker)
    this.#closing?.cancel()
    this.#reload.addWorker(worker, configId)
    // What was sent while the worker was starting is lost: it did not handle messages yet.
    this.#applySettings(worker)
    if (this.#isStopping) worker.send('stop', undefined)
    return worker
  }

  /** Sets it in all workers, those that are started later included. */
  set(setting: string, set: (worker: WorkerChannel) => void): void {
    this.#settings.set(setting, set)
    for (const worker of this.#ready) set(worker)
  }

  #applySettings(worker: WorkerChannel): void {
    for (const set of this.#settings.values()) set(worker)
  }

  /** The replies of all ready workers. */
  callAll<Name extends CallName<ToWorker>>(
    name: Name,
    args: ValueOf<ToWorker, Name>,
    timeoutMs: number,
  ): Promise<readonly (ReplyOf<ToWorker, Name> | NoReply)[]> {
    return Promise.all(Array.from(this.#ready, worker => worker.call(name, args, timeoutMs)))
  }

  /** By all ready workers but the one that needs them. */
  async #returnCredits(recall: ValueOf<ToWorker, 'returnCredits'>, needing: WorkerProcess): Promise<void> {
    const others = [...this.#ready].filter(worker => worker !== needing)
    await Promise.all(others.map(worker => worker.call('returnCredits', recall, recallTimeoutMs)))
  }

  /** Resolves when all workers have exited, their calls finished; one that does not exit in time is killed. */
  async stop(graceMs = 0, timeoutMs = this.#options.stopTimeoutMs): Promise<void> {
    this.#isStopping = true
    if (this.#ready.size > 0) await this.#endListening(graceMs)
    await Promise.all(Array.from(this.#workers, worker => this.#stopWorker(worker, timeoutMs)))
    this.#closing?.cancel()
    this.#options.connections.closeUnused()
  }

  /** All workers serve on for `graceMs`. Then listening ends, and the workers get the last connections: who has connected is answered. */
  async #endListening(graceMs: number): Promise<void> {
    const { connections } = this.#options
    for (const worker of this.#ready) worker.send('lameDuck', { graceMs })
    await sleep(this.#clock, graceMs)
    connections.hold()
    const closeFillers = await whenQuiet(this.#clock, () => connections.acceptedCount, connections.listening)
    connections.endListening()
    closeFillers()
    await withTimeoutOr(this.#clock, maxHandoverMs, connections.whenHandedOver(), () => undefined)
  }

  /** True when the worker is to be replaced. */
  #removeExited(worker: WorkerProcess, { code, signal }: WorkerExit): boolean {
    this.#options.onExit(worker)
    this.#workers.delete(worker)
    this.#counts.removeWorker(worker)
    const wasReady = this.#ready.delete(worker)
    if (this.#isStopping || !wasReady) return false
    if (this.#ready.size === 0) this.#closing = this.#clock.after(maxUnusedMs, () => this.#options.connections.closeUnused())
    this.#exits.add()
    this.#log.warn({ event: 'worker-exited', worker: worker.pid, code, signal }, 'worker exited; restarting it')
    return true
  }

  #restart(backoff: Backoff, uptimeMs: number): void {
    if (uptimeMs >= minStableUptimeMs) backoff.reset()
    const delayMs = uptimeMs >= minStableUptimeMs ? 0 : backoff.next()
    this.#clock.after(delayMs, () => void this.#replace(backoff))
  }

  async #replace(backoff: Backoff, retryDelays = new Backoff(retryBackoff)): Promise<void> {
    if (this.#isStopping) return
    try {
      const worker = await this.add(backoff)
      this.#log.info({ event: 'worker-restarted', worker: worker.pid }, 'worker restarted')
    } catch (error) {
      const delayMs = retryDelays.next()
      const reason = error instanceof Error ? error.message : String(error)
      this.#log.error({ event: 'worker-restart-failed', err: error }, `worker restart failed; next attempt in ${delayMs} ms: ${reason}`)
      this.#clock.after(delayMs, () => void this.#replace(backoff, retryDelays))
    }
  }

  async #stopWorker(worker: WorkerProcess, timeoutMs: number): Promise<void> {
    worker.send('stop', undefined)
    const timer = this.#clock.after(timeoutMs, () => {
      this.#log.error({ event: 'worker-killed', worker: worker.pid }, 'worker did not exit in time; killing it')
      worker.kill()
    })
    await worker.exited
    timer.cancel()
  }
}
