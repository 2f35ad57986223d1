import t from '../../support/tap.ts'
import { EventDelivery } from '../../../plugins/subscriptions/event-delivery.ts'
import { Subscription } from '../../../plugins/subscriptions/subscription.ts'
import type { PushOrigin } from '../../../plugins/subscriptions/subscription.ts'
import { Cancellation } from '../../../src/plugin/call.ts'
import { composeEventRules } from '../../../src/services/event-rules.ts'
import type { EventRules } from '../../../src/services/event-rules.ts'
import type { CountedCall } from '../../../src/services/index.ts'
import { fakeAccount, fakeOrigin } from '../../support/fakes.ts'

const midnight = Date.UTC(2026, 0, 16)
const quota = { limit: 1_000, remaining: 0, resetsInMs: 1 }

/** Subscriptions of any keys, which pay from `balance` unless events are free. */
const openDelivery = (balance = Infinity, isFree = false) => {
  const usage: CountedCall[] = []
  const charges: { readonly key: string; readonly credits: number }[] = []
  let left = balance
  let isStoreAvailable = true
  const charge: EventRules['charge'] = ({ key }, credits) => {
    if (!isStoreAvailable) return { kind: 'storeUnavailable' }
    if (credits > left)
      return { kind: 'exhausted', limit: 1_000, used: 1_000, resetAt: midnight, quota, ...(key.id === 'limited' && { isKeyLimit: true }) }
    left -= credits
    const charge = { key: key.id, credits }
    charges.push(charge)
    const refund = (): boolean => {
      left += credits
      return charges.splice(charges.indexOf(charge), 1).length === 1
    }
    return { kind: 'charged', day: 7, quota, refund }
  }
  const delivery = new EventDelivery({
    accounts: { find: () => ({ kind: 'unknown' }) },
    events: composeEventRules(isFree ? [] : [{ charge }]),
    usage: { count: call => void usage.push(call) },
    network: { name: 'devnet', chainId: 1, blockTime: 1_000 },
    onDelivered: () => undefined,
  })
  const subscribe = ({ key = 'key_1', cost = 50, isReading = (): boolean => true } = {}) => {
    const sent: string[] = []
    const closed: string[] = []
    const signal = new Cancellation()
    const push = {
      send: (pieces: readonly (string | Uint8Array)[]) =>
        isReading() && sent.push((JSON.parse(pieces.join('')) as { params: { result: string } }).params.result) > 0,
      close: (code: number, reason: string) => void closed.push(`${code} ${reason}`),
    }
    const origin: PushOrigin = { ...fakeOrigin({ transport: 'websocket', signal }), push }
    const subscription = new Subscription({ kind: 'newHeads', cost }, { origin, account: fakeAccount, key: { id: key } })
    subscription.begin()
    return { subscription, sent, closed, signal }
  }
  const deliver = (subscriptions: readonly { subscription: Subscription }[], timestampMs: number | undefined) =>
    delivery.deliver(new Map(subscriptions.map(({ subscription }) => [subscription, ['"a"', '"b"']])), timestampMs)
  const stopStore = (): void => {
    isStoreAvailable = false
  }
  const counted = () => usage.map(({ calls, key, method, credits, day }) => `${calls} ${key} ${method} ${credits} ${day ?? '-'}`)
  return { subscribe, deliver, delivery, charges, counted, stopStore, left: () => left }
}

t.test('events of a block', async t => {
  t.test('are charged once for each key, and counted for each subscription', async t => {
    const { subscribe, deliver, charges, counted } = openDelivery()
    const subscriptions = [subscribe(), subscribe(), subscribe({ key: 'key_2' }), subscribe({ key: 'key_2', cost: 0 })]
    await deliver(subscriptions, 0)
    t.same(charges, [
      { key: 'key_1', credits: 100 },
      { key: 'key_2', credits: 50 },
    ])
    t.same(counted().sort(), ['1 key_2 eth_subscription 0 -', '1 key_2 eth_subscription 50 7', '2 key_1 eth_subscription 100 7'])
    for (const { sent } of subscriptions) t.same(sent, ['a', 'b'])
  })

  t.test('are charged at most once in 12 s of the chain, whatever a reorg does to its time', async t => {
    const { subscribe, deliver, charges } = openDelivery()
    const one = subscribe()
    for (const seconds of [100, 101, 111, 112, 123, 100, 124, 124]) await deliver([one], 1_000 * seconds)
    t.equal(charges.length, 3)
    await deliver([one], undefined)
    t.equal(charges.length, 4, 'a block without a timestamp')
    t.equal(one.sent.length, 18)
  })

  t.test('that cannot be sent are free', async t => {
    const { subscribe, deliver, charges, counted } = openDelivery()
    let isReading = true
    const slow = subscribe({ isReading: () => isReading })
    const [other, gone] = [subscribe(), subscribe()]
    isReading = false
    gone.signal.abort()
    await deliver([slow, other, gone], 0)
    t.same(charges, [{ key: 'key_1', credits: 50 }])
    t.same(counted(), ['1 key_1 eth_subscription 50 7'])
    t.same([slow.sent, other.sent, gone.sent], [[], ['a', 'b'], []])
  })

  t.test('that cannot be paid close the WebSocket, and the reason says until when', async t => {
    const { subscribe, deliver, charges } = openDelivery(120)
    const [poor, limited, free] = [subscribe(), subscribe({ key: 'limited' }), subscribe({ cost: 0 })]
    await deliver([poor, limited, free], 0)
    await deliver([poor, limited, free], 12_000)
    t.equal(charges.length, 2)
    t.same(poor.closed, ['1008 the daily credits are used up until 2026-01-16T00:00:00.000Z'])
    t.same(limited.closed, ['1008 the daily limit of this API key is used up until 2026-01-16T00:00:00.000Z'])
    t.same([poor.sent.length, limited.sent.length, free.sent.length], [2, 2, 4])
    for (const { closed } of [poor, limited]) t.ok(Buffer.byteLength(closed[0] ?? '') <= 123)
  })

  t.test('close the WebSocket when the store cannot charge them', async t => {
    const { subscribe, deliver, stopStore } = openDelivery()
    const one = subscribe()
    stopStore()
    await deliver([one], 0)
    t.same([one.closed, one.sent], [['1013 credits cannot be charged now'], []])
  })

  t.test('cost nothing where calls cost nothing', async t => {
    const { subscribe, deliver, charges } = openDelivery(Infinity, true)
    const one = subscribe()
    await deliver([one], 0)
    t.same([one.sent, charges], [['a', 'b'], []])
  })
})

t.test('events that come before the caller has the id are sent after it, in order', async t => {
  const sent: string[] = []
  const push = { send: (pieces: readonly unknown[]) => sent.push(String(pieces[1])) > 0, close: () => undefined }
  const origin: PushOrigin = { ...fakeOrigin({ transport: 'websocket' }), push }
  const subscription = new Subscription({ kind: 'newHeads', cost: 0 }, { origin, account: fakeAccount, key: { id: 'key_1' } })
  subscription.send(['1', '2'])
  subscription.send(['3'])
  t.same(sent, [])
  subscription.begin()
  subscription.send(['4'])
  t.same(sent, ['1', '2', '3', '4'])
})
