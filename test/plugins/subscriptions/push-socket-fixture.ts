import { Subscription } from '../../../plugins/subscriptions/subscription.ts'
import type { PushOrigin, Topic } from '../../../plugins/subscriptions/subscription.ts'
import { Cancellation } from '../../../src/plugin/call.ts'
import { fakeAccount, fakeOrigin } from '../../support/fakes.ts'

interface PushSocketOptions {
  /** Called for each event; false while the caller does not read. */
  readonly accept?: () => boolean
  readonly turn?: PushOrigin['push']['turn']
}

/** A WebSocket that takes events until it is closed, and what it got. */
export const openPushSocket = ({ accept = () => true, turn = () => undefined }: PushSocketOptions = {}) => {
  const sent: unknown[] = []
  const closed: string[] = []
  const signal = new Cancellation()
  const push = {
    send: (pieces: readonly (string | Uint8Array)[]) =>
      accept() && closed.length === 0 && sent.push((JSON.parse(pieces.join('')) as { params: { result: unknown } }).params.result) > 0,
    turn,
    close: (code: number, reason: string) => void closed.push(`${code} ${reason}`),
  }
  const origin: PushOrigin = { ...fakeOrigin({ transport: 'websocket', signal }), push }
  /** Nothing is sent before its begin(). */
  const subscription = (topic: Topic = { kind: 'newHeads' }, key = 'key_1') =>
    new Subscription(topic, { origin, account: fakeAccount, key: { id: key } })
  return { sent, closed, signal, subscription }
}
