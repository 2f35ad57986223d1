import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { Channel, transmitTo } from '../util/channel.ts'
import type { Handlers } from '../util/channel.ts'
import { toWorkerRules } from './worker-messages.ts'
import type { ToPrimary, ToWorker } from './worker-messages.ts'

/** A worker exited before it was ready. It has written the reason to stderr. */
export class WorkerExitError extends Error {}

/** The operating system did not start a process for a worker, or killed it before it was ready. The message is for the operator. */
export class WorkerSpawnError extends Error {}

/** How a process exited, or why it was never started. */
export interface WorkerExit {
  readonly code?: number
  readonly signal?: string
  readonly error?: Error
}

/** The operating system refuses some processes at once, with WorkerSpawnError; others in an event. */
export const spawnWorker = (env: Readonly<Record<string, string>>, clock: Clock, log: Log): WorkerProcess => {
  try {
    return new WorkerProcess(cluster.fork(env), clock, log)
  } catch (error) {
    throw spawnErrorOf(error)
  }
}

const spawnErrorOf = (error: unknown): WorkerSpawnError =>
  new WorkerSpawnError(`worker could not be started: ${error instanceof Error ? error.message : String(error)}`, { cause: error })

export class WorkerProcess extends Channel<ToWorker, ToPrimary> {
  /** Node's object. */
  readonly clusterWorker: Worker
  /** Resolves once the process has ended, or could not be started. */
  readonly exited: Promise<WorkerExit>

  constructor(clusterWorker: Worker, clock: Clock, log: Log) {
    super({ clock, rules: toWorkerRules, transmit: transmitTo(clusterWorker.process) })
    this.clusterWorker = clusterWorker
    this.exited = whenExited(clusterWorker, log)
    void this.exited.then(() => this.close())
    clusterWorker.on('message', message => this.receive(message))
  }

  get pid(): number | undefined {
    return this.clusterWorker.process.pid
  }

  /** Resolves with the id of its configuration when it is ready. Rejects with WorkerSpawnError or WorkerExitError. */
  start(handlers: Omit<Handlers<ToPrimary>, 'ready' | 'startFailed'>): Promise<string> {
    let failure: string | undefined
    return new Promise((resolve, reject) => {
      this.handle({
        ...handlers,
        ready: ({ configId }) => resolve(configId),
        startFailed({ reason }, reply) {
          failure = reason
          reply()
        },
      })
      void this.exited.then(exit => reject(startErrorOf(exit, failure)))
    })
  }

  /** At once: it has no more time to exit. */
  kill(): void {
    this.clusterWorker.process.kill('SIGKILL')
  }
}

/** A process that a signal ends, as SIGKILL when the machine is out of memory, has written no reason. */
const startErrorOf = ({ code, signal, error }: WorkerExit, reason: string | undefined): Error => {
  if (error !== undefined) return spawnErrorOf(error)
  if (signal) return new WorkerSpawnError(`worker was killed by ${signal} before it was ready`)
  return new WorkerExitError(`worker exited with ${code} before it was ready${reason === undefined ? '' : `: ${reason}`}`)
}

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
