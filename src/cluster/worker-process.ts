import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { withTimeoutOr } from '../util/async.ts'
import { Channel } from './channel.ts'
import type { PrimaryMessage, WorkerChannel, WorkerMessage } from './worker-messages.ts'

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

/** The kinds of messages that a worker answers, and the kinds of the answers. */
const replyKinds = {
  metrics: 'metrics',
  nodes: 'nodes',
  prepareReload: 'reloadPrepared',
  accessLog: 'accessLogSet',
  reopenAccessLog: 'accessLogSet',
} as const

export type PrimaryRequest = Extract<PrimaryMessage, { readonly kind: keyof typeof replyKinds }>

/** `exited`: the worker exited before it had answered. `late`: it did not answer in time. */
export type WorkerReply<R extends PrimaryRequest> = ReplyMessage<R> | 'exited' | 'late'

type ReplyMessage<R extends PrimaryRequest> = Extract<WorkerMessage, { readonly kind: (typeof replyKinds)[R['kind']]; readonly id: number }>

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

/** One worker, for its primary. */
export class WorkerProcess implements WorkerChannel {
  /** Node's object. */
  readonly clusterWorker: Worker
  /** Resolves once the process has ended, or could not be started. */
  readonly exited: Promise<WorkerExit>
  readonly #clock: Clock
  readonly #channel: Channel<PrimaryMessage>

  constructor(clusterWorker: Worker, clock: Clock, log: Log) {
    this.clusterWorker = clusterWorker
    this.exited = whenExited(clusterWorker, log)
    this.#clock = clock
    this.#channel = new Channel((message, onSent) => {
      // With a callback, a failure to send is no event that would end this process.
      if (clusterWorker.isConnected()) clusterWorker.send(message, onSent)
      else onSent()
    })
  }

  get pid(): number | undefined {
    return this.clusterWorker.process.pid
  }

  send(message: PrimaryMessage): void {
    this.#channel.send(message)
  }

  onMessage(listener: (message: WorkerMessage) => void): void {
    this.clusterWorker.on('message', listener)
  }

  /** Resolves with the id of its configuration. Rejects with WorkerSpawnError or WorkerExitError. */
  whenReady(): Promise<string> {
    return new Promise((resolve, reject) => {
      this.onMessage(message => {
        if (message.kind === 'ready') resolve(message.configId)
      })
      void this.exited.then(exit => reject(startErrorOf(exit)))
    })
  }

  async request<R extends PrimaryRequest>(message: R, timeoutMs: number): Promise<WorkerReply<R>> {
    if (this.clusterWorker.isDead()) return 'exited'
    let onExit = () => {}
    let onMessage = (_message: WorkerMessage) => {}
    const reply = new Promise<ReplyMessage<R> | 'exited'>(resolve => {
      onExit = () => resolve('exited')
      onMessage = received => {
        if (isReplyTo(message, received)) resolve(received)
      }
    })
    this.clusterWorker.on('message', onMessage).once('exit', onExit)
    this.send(message)
    const result = await withTimeoutOr(this.#clock, timeoutMs, reply, () => 'late' as const)
    this.clusterWorker.off('message', onMessage).off('exit', onExit)
    return result
  }

  /** At once: it has no more time to exit. */
  kill(): void {
    this.clusterWorker.process.kill('SIGKILL')
  }
}

/** A process that a signal ends, as SIGKILL when the machine is out of memory, has written no reason. */
const startErrorOf = ({ code, signal, error }: WorkerExit): Error => {
  if (error !== undefined) return spawnErrorOf(error)
  if (signal) return new WorkerSpawnError(`worker was killed by ${signal} before it was ready`)
  return new WorkerExitError(`worker exited with ${code} before it was ready`)
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

const isReplyTo = <R extends PrimaryRequest>({ kind, id }: R, message: WorkerMessage): message is ReplyMessage<R> =>
  message.kind === replyKinds[kind] && 'id' in message && message.id === id
