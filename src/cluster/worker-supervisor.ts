import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { WorkerChannel } from './height-broadcast.ts'
import { reassignConnections } from '../runtime/connection-handover.ts'
import { coalesceMessages, topicOf } from './messages.ts'
import type { PrimaryMessage, WorkerMessage } from './messages.ts'
import { Channel } from './channel.ts'

export interface SupervisorOptions {
  readonly env: Readonly<Record<string, string>>
  /** In ms: how long a worker may take to end when it is told to. */
  readonly stopTimeoutMs: number
  /** Hears all that workers say, and when they are gone. */
  readonly sharedHeads: { handleMessage(worker: WorkerChannel, message: WorkerMessage): void; removeWorker(worker: WorkerChannel): void }
}

/** A worker ended before it served. It has said why on stderr. */
export class WorkerExitError extends Error {}

/** The system gave no process for a worker. The message is for the operator. */
export class WorkerSpawnError extends Error {}

/**
 * The workers that are to serve. One that ends unasked is replaced: at once, unless it lived for less than a second,
 * which doubles the wait up to 5 s. A replacement that does not come to serve is tried again after a second.
 */
export class WorkerSupervisor {
  readonly #options: SupervisorOptions
  readonly #clock: Clock
  readonly #log: Log
  readonly #workers = new Map<Worker, SupervisedWorker>()
  readonly #serving = new Map<Worker, WorkerChannel>()
  #isStopping = false

  constructor(plan: SupervisorOptions, clock: Clock, log: Log) {
    this.#options = plan
    this.#clock = clock
    this.#log = log
  }

  get serving(): ReadonlyMap<Worker, WorkerChannel> {
    return this.#serving
  }

  /** Resolves when one more serves. Rejects with SpawnFault or CrewFault. */
  async add(restartDelayMs = 0): Promise<void> {
    const startedAt = this.#clock.monotonic()
    const worker = spawn(this.#options.env)
    const channel = openWorkerChannel(worker)
    const exited = whenExited(worker, this.#log)
    reassignConnections(worker, () => [...this.#serving.keys()].some(other => other !== worker && other.isConnected()))
    this.#workers.set(worker, { channel, exited })
    worker.on('message', (message: WorkerMessage) => this.#options.sharedHeads.handleMessage(channel, message))
    void exited.then(end =>
      this.#onExit(worker, channel, end, () => nextRestartDelayMs(restartDelayMs, this.#clock.monotonic() - startedAt)),
    )
    await whenReady(worker, exited)
    this.#serving.set(worker, channel)
    // It did not hear of the stop while it was starting.
    if (this.#isStopping) channel.send({ kind: 'stop' })
  }

  /** Resolves when all have ended; one that does not end in time is killed. */
  async stop(): Promise<void> {
    this.#isStopping = true
    await Promise.all(Array.from(this.#workers, ([worker, working]) => this.#stopWorker(worker, working)))
  }

  #onExit(worker: Worker, channel: WorkerChannel, { code, signal }: WorkerExit, nextDelay: () => number): void {
    this.#options.sharedHeads.removeWorker(channel)
    this.#workers.delete(worker)
    const served = this.#serving.delete(worker)
    if (this.#isStopping || !served) return
    this.#log.warn({ event: 'worker-ended', worker: worker.process.pid, code, signal }, 'a worker ended and is replaced')
    const restartDelayMs = nextDelay()
    this.#clock.after(restartDelayMs, () => void this.#replace(restartDelayMs))
  }

  async #replace(restartDelayMs: number): Promise<void> {
    if (this.#isStopping) return
    try {
      await this.add(restartDelayMs)
    } catch (fault) {
      this.#log.error({ event: 'worker-missing', err: fault }, 'a worker could not be replaced; the next try is in a second')
      this.#clock.after(1000, () => void this.#replace(restartDelayMs))
    }
  }

  async #stopWorker(worker: Worker, { channel, exited }: SupervisedWorker): Promise<void> {
    channel.send({ kind: 'stop' })
    const timer = this.#clock.after(this.#options.stopTimeoutMs, () => {
      this.#log.error({ event: 'worker-killed', worker: worker.process.pid }, 'a worker did not end and is killed')
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

/** How a process ended, or why there never was one. */
interface WorkerExit {
  readonly code?: number
  readonly signal?: string
  readonly error?: Error
}

const nextRestartDelayMs = (restartDelayMs: number, uptimeMs: number): number =>
  uptimeMs < 1000 ? Math.min(5000, Math.max(100, 2 * restartDelayMs)) : 0

/** Some of what the system may refuse comes at once, the rest as an event. */
const spawn = (env: SupervisorOptions['env']): Worker => {
  try {
    return cluster.fork(env)
  } catch (error) {
    throw spawnErrorOf(error)
  }
}

const spawnErrorOf = (error: unknown): WorkerSpawnError =>
  new WorkerSpawnError(`a worker could not be started: ${error instanceof Error ? error.message : String(error)}`, { cause: error })

/** One that was never spawned ends with an error, and with nothing else. */
const whenExited = (worker: Worker, log: Log): Promise<WorkerExit> =>
  new Promise(resolve => {
    worker.once('exit', (code: number, signal: string) => resolve({ code, signal }))
    worker.on('error', error => {
      if (worker.process.pid === undefined) resolve({ error })
      // Of its pipe: if it ends of that, it says so.
      else log.warn({ event: 'worker-error', worker: worker.process.pid, err: error }, 'the pipe to a worker failed')
    })
  })

const whenReady = (worker: Worker, exited: Promise<WorkerExit>): Promise<void> =>
  new Promise((resolve, reject) => {
    worker.on('message', (message: WorkerMessage) => {
      if (message.kind === 'ready') resolve()
    })
    void exited.then(({ code, signal, error }) =>
      reject(error === undefined ? new WorkerExitError(`a worker ended with ${code ?? signal} before it served`) : spawnErrorOf(error)),
    )
  })

const openWorkerChannel = (worker: Worker): WorkerChannel =>
  new Channel<PrimaryMessage>({
    send(message, sent) {
      // With a callback, what cannot be sent any more is no event that ends this process.
      if (worker.isConnected()) worker.send(message, sent)
      else sent()
    },
    topicOf,
    coalesce: coalesceMessages,
  })
