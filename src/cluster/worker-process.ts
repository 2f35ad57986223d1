import cluster from 'node:cluster'
import type { Worker } from 'node:cluster'
import type { Log } from '../services/log.ts'
import { Channel } from './channel.ts'
import type { PrimaryMessage, WorkerChannel, WorkerMessage } from './worker-messages.ts'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'

/** A worker exited before it was ready. It has written the reason to stderr. */
export class WorkerExitError extends Error {}

/** The operating system did not start a process for a worker. The message is for the operator. */
export class WorkerSpawnError extends Error {}

/** How a process exited, or why it was never started. */
export interface WorkerExit {
  readonly code?: number
  readonly signal?: string
  readonly error?: Error
}

/** The operating system refuses some processes at once, others in an event. */
export const spawnWorker = (env: Readonly<Record<string, string>>): Worker => {
  try {
    return cluster.fork(env)
  } catch (error) {
    throw spawnErrorOf(error)
  }
}

const spawnErrorOf = (error: unknown): WorkerSpawnError =>
  new WorkerSpawnError(`worker could not be started: ${error instanceof Error ? error.message : String(error)}`, { cause: error })

/** A process that was never started has an error event, and no exit event. */
export const whenExited = (worker: Worker, log: Log): Promise<WorkerExit> =>
  new Promise(resolve => {
    worker.once('exit', (code: number, signal: string) => resolve({ code, signal }))
    worker.on('error', error => {
      if (worker.process.pid === undefined) resolve({ error })
      // An error of its pipe: if the worker exits of it, that is another event.
      else log.warn({ event: 'worker-error', worker: worker.process.pid, err: error }, 'the pipe to a worker failed')
    })
  })

/** Resolves with the id of its configuration. */
export const whenReady = (worker: Worker, exited: Promise<WorkerExit>): Promise<string> =>
  new Promise((resolve, reject) => {
    worker.on('message', (message: WorkerMessage) => {
      if (message.kind === 'ready') resolve(message.configId)
    })
    void exited.then(({ code, signal, error }) =>
      reject(error === undefined ? new WorkerExitError(`worker exited with ${code ?? signal} before it was ready`) : spawnErrorOf(error)),
    )
  })

export const openWorkerChannel = (worker: Worker): WorkerChannel =>
  new Channel<PrimaryMessage>((message, onSent) => {
    // With a callback, a failure to send is no event that would end this process.
    if (worker.isConnected()) worker.send(message, onSent)
    else onSent()
  })

/** A message that a worker answers. */
export type PrimaryRequest = Extract<PrimaryMessage, { readonly kind: 'metrics' | 'prepareReload' | 'accessLog' | 'reopenAccessLog' }>

/** The kinds of the answers. */
export type ReplyKind = 'metrics' | 'reloadPrepared' | 'accessLogSet'

type ReplyMessage<K extends ReplyKind> = Extract<WorkerMessage, { readonly kind: K; readonly id: number }>

export interface WorkerReply<K extends ReplyKind> {
  readonly worker: Worker
  readonly reply: ReplyMessage<K> | 'exited' | 'late'
}

interface ReplyRequest<K extends ReplyKind> {
  readonly message: PrimaryRequest
  readonly kind: K
  readonly timeoutMs: number
}

/** The worker's reply; `exited` when it exits before it has answered, `late` when it does not answer in time. */
export const requestReply = async <K extends ReplyKind>(
  worker: Worker,
  channel: WorkerChannel,
  { message, kind, timeoutMs }: ReplyRequest<K>,
  clock: Clock,
): Promise<WorkerReply<K>['reply']> => {
  let onExit = () => {}
  let onMessage = (_message: WorkerMessage) => {}
  const reply = new Promise<ReplyMessage<K> | 'exited'>(resolve => {
    onExit = () => resolve('exited')
    onMessage = received => {
      if (isReply(received, kind, message.id)) resolve(received)
    }
  })
  worker.on('message', onMessage).once('exit', onExit)
  channel.send(message)
  const result = await withTimeoutOr(clock, timeoutMs, reply, () => 'late' as const)
  worker.off('message', onMessage).off('exit', onExit)
  return result
}

const isReply = <K extends ReplyKind>(message: WorkerMessage, kind: K, id: number): message is ReplyMessage<K> =>
  message.kind === kind && 'id' in message && message.id === id
