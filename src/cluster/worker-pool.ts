import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import { reassignConnections } from '../runtime/connection-handover.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { MetricFamily } from '../services/metrics.ts'
import { Backoff, withTimeoutOr } from '../util/async.ts'
import { Channel } from './channel.ts'
import type { PrimaryMessage, WorkerChannel, WorkerMessage, WorkerSetting } from './channel.ts'

export interface WorkerPoolOptions {
  /** The script that a worker runs, and its arguments. */
  readonly exec: string
  readonly args: readonly string[]
  readonly size: number
  readonly env: Readonly<Record<string, string>>
  /** ms that a worker has to exit in, once it is to stop and its grace is over. */
  readonly stopTimeoutMs: number
  /** Gets all messages of workers, and their exits. */
  readonly sharedHeads: { handleMessage(worker: WorkerChannel, message: WorkerMessage): void; removeWorker(worker: WorkerChannel): void }
}

/** A worker exited before it was ready. It has written the reason to stderr. */
export class WorkerExitError extends Error {}

/** The operating system did not start a process for a worker. The message is for the operator. */
export class WorkerSpawnError extends Error {}

/** A worker that exits sooner is restarted with a backoff, others at once. */
const minStableUptimeMs = 1000
const minRestartDelayMs = 100
const maxRestartDelayMs = 5000
/** Before the next attempt, when a replacement did not become ready. */
const retryDelayMs = 1000

/** A worker whose metrics take longer is left out. */
const metricsTimeoutMs = 1000

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
  #isStopping = false
  #lastRequestId = 0

  constructor(options: WorkerPoolOptions, clock: Clock, log: Log) {
    this.#options = options
    this.#clock = clock
    this.#log = log
  }

  /** Workers that accept calls. */
  get readyCount(): number {
    return this.#ready.size
  }

  /** The metrics of each ready worker that answers within `metricsTimeoutMs`. */
  async metrics(): Promise<readonly (readonly MetricFamily[])[]> {
    const requests = Array.from(this.#ready, ([worker, channel]) =>
      requestMetrics(worker, channel, (this.#lastRequestId += 1), this.#clock),
    )
    return (await Promise.all(requests)).filter(metrics => metrics !== undefined)
  }

  /** Resolves with one more worker when it is ready. Rejects with WorkerSpawnError or WorkerExitError. */
  async add(backoff = new Backoff({ minMs: minRestartDelayMs, maxMs: maxRestartDelayMs })): Promise<Worker> {
    const startedAt = this.#clock.monotonic()
    const worker = spawn(this.#options.env)
    const channel = openWorkerChannel(worker)
    const exited = whenExited(worker, this.#log)
    reassignConnections(worker, () => this.#ready.keys())
    this.#workers.set(worker, { channel, exited })
    worker.on('message', (message: WorkerMessage) => this.#options.sharedHeads.handleMessage(channel, message))
    void exited.then(exit => {
      const uptimeMs = this.#clock.monotonic() - startedAt
      if (this.#removeExited(worker, channel, exit)) this.#restart(backoff, uptimeMs)
    })
    await whenReady(worker, exited)
    this.#ready.set(worker, channel)
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

  /** Lets each worker serve on for `graceMs` and finish its calls. Resolves when all workers have exited; a worker that does not exit in time is killed. */
  async stop(graceMs = 0): Promise<void> {
    this.#isStopping = true
    await Promise.all(Array.from(this.#workers, ([worker, supervised]) => this.#stopWorker(worker, supervised, graceMs)))
  }

  /** True when the worker is to be replaced. */
  #removeExited(worker: Worker, channel: WorkerChannel, { code, signal }: WorkerExit): boolean {
    this.#options.sharedHeads.removeWorker(channel)
    this.#workers.delete(worker)
    const wasReady = this.#ready.delete(worker)
    if (this.#isStopping || !wasReady) return false
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

  async #stopWorker(worker: Worker, { channel, exited }: SupervisedWorker, graceMs: number): Promise<void> {
    channel.send({ kind: 'stop', graceMs })
    const timer = this.#clock.after(graceMs + this.#options.stopTimeoutMs, () => {
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

/** How a process exited, or why it was never started. */
interface WorkerExit {
  readonly code?: number
  readonly signal?: string
  readonly error?: Error
}

/** The operating system refuses some processes at once, others in an event. */
const spawn = (env: WorkerPoolOptions['env']): Worker => {
  try {
    return cluster.fork(env)
  } catch (error) {
    throw spawnErrorOf(error)
  }
}

const spawnErrorOf = (error: unknown): WorkerSpawnError =>
  new WorkerSpawnError(`worker could not be started: ${error instanceof Error ? error.message : String(error)}`, { cause: error })

/** A process that was never started has an error event, and no exit event. */
const whenExited = (worker: Worker, log: Log): Promise<WorkerExit> =>
  new Promise(resolve => {
    worker.once('exit', (code: number, signal: string) => resolve({ code, signal }))
    worker.on('error', error => {
      if (worker.process.pid === undefined) resolve({ error })
      // An error of its pipe: if the worker exits of it, that is another event.
      else log.warn({ event: 'worker-error', worker: worker.process.pid, err: error }, 'the pipe to a worker failed')
    })
  })

const whenReady = (worker: Worker, exited: Promise<WorkerExit>): Promise<void> =>
  new Promise((resolve, reject) => {
    worker.on('message', (message: WorkerMessage) => {
      if (message.kind === 'ready') resolve()
    })
    void exited.then(({ code, signal, error }) =>
      reject(error === undefined ? new WorkerExitError(`worker exited with ${code ?? signal} before it was ready`) : spawnErrorOf(error)),
    )
  })

const openWorkerChannel = (worker: Worker): WorkerChannel =>
  new Channel<PrimaryMessage>((message, onSent) => {
    // With a callback, a failure to send is no event that would end this process.
    if (worker.isConnected()) worker.send(message, onSent)
    else onSent()
  })

/** Undefined when the worker exits before it has answered, or does not answer in time. */
const requestMetrics = async (
  worker: Worker,
  channel: WorkerChannel,
  id: number,
  clock: Clock,
): Promise<readonly MetricFamily[] | undefined> => {
  let onExit = () => {}
  let onMessage = (_message: WorkerMessage) => {}
  const reply = new Promise<readonly MetricFamily[] | undefined>(resolve => {
    onExit = () => resolve(undefined)
    onMessage = message => {
      if (message.kind === 'metrics' && message.id === id) resolve(message.metrics)
    }
  })
  worker.on('message', onMessage).once('exit', onExit)
  channel.send({ kind: 'metrics', id })
  const metrics = await withTimeoutOr(clock, metricsTimeoutMs, reply, () => undefined)
  worker.off('message', onMessage).off('exit', onExit)
  return metrics
}
