import type { Worker } from 'node:cluster'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { PrimaryMessage, WorkerChannel, WorkerMessage } from './channel.ts'

/** A message that a worker answers. */
export type PrimaryRequest = Extract<PrimaryMessage, { readonly kind: 'metrics' | 'prepareReload' | 'accessLog' | 'reopenAccessLog' }>

/** The kinds of the answers. */
export type ReplyKind = 'metrics' | 'reloadPrepared' | 'accessLogSet'

type Reply<K extends ReplyKind> = Extract<WorkerMessage, { readonly kind: K; readonly id: number }>

export interface WorkerReply<K extends ReplyKind> {
  readonly worker: Worker
  readonly reply: Reply<K> | 'exited' | 'late'
}

interface RequestOptions<K extends ReplyKind> {
  readonly message: PrimaryRequest
  readonly kind: K
  readonly timeoutMs: number
}

/** The worker's reply; `exited` when it exits before it has answered, `late` when it does not answer in time. */
export const requestReply = async <K extends ReplyKind>(
  worker: Worker,
  channel: WorkerChannel,
  { message, kind, timeoutMs }: RequestOptions<K>,
  clock: Clock,
): Promise<WorkerReply<K>['reply']> => {
  let onExit = () => {}
  let onMessage = (_message: WorkerMessage) => {}
  const reply = new Promise<Reply<K> | 'exited'>(resolve => {
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

const isReply = <K extends ReplyKind>(message: WorkerMessage, kind: K, id: number): message is Reply<K> =>
  message.kind === kind && 'id' in message && message.id === id
