import { setImmediate as turn } from 'node:timers/promises'
import t from '../../support/tap.ts'
import { EventDelivery } from '../../../plugins/subscriptions/event-delivery.ts'
import type { Subscription, Topic } from '../../../plugins/subscriptions/subscription.ts'
import { parseLogFilter } from '../../../plugins/subscriptions/log-filter.ts'
import type { LogFilter } from '../../../plugins/subscriptions/log-filter.ts'
import { LogPublisher } from '../../../plugins/subscriptions/publishers.ts'
import { results } from '../../../src/services/results.ts'
import { composeEventRules } from '../../../src/services/event-rules.ts'
import type { EventRules } from '../../../src/services/event-rules.ts'
import type { Key } from '../../../src/plugin/plugin.ts'
import type { CountedCall } from '../../../src/services/index.ts'
import { createUsage } from '../../../src/services/usage/index.ts'
import { FairScheduler } from '../../../src/server/fair-scheduler.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { deferred } from '../../support/deferred.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { openPushSocket } from './push-socket-fixture.ts'

/** So many turns of the event loop. */
const turns = async (count: number): Promise<void> => {
  for (let i = 0; i < count; i++) await turn()
}

const allLogs = parseLogFilter({}, 'eth_subscribe') as LogFilter
const logs = { kind: 'logs', filter: allLogs } as const
const free = { kind: 'syncing' } as const

const midnight = Date.UTC(2026, 0, 16)
const quota = { limit: 1_000, remaining: 0, resetsInMs: 1 }

/** So many bytes of messages, one message. */
const messageOf = (bytes: number): string => JSON.stringify('x'.repeat(bytes - messageOverheadBytes))

/** What a message has besides its text; the quotes of the text count too. */
const messageOverheadBytes = JSON.stringify({
  jsonrpc: '2.0',
  method: 'eth_subscription',
  params: { subscription: `0x${'0'.repeat(32)}`, result: '' },
}).length

/** Credits for each KiB of messages. */
const costs: Readonly<Record<string, number>> = { newHeads: 50, logs: 10, syncing: 0 }

/** Subscriptions of any keys, which pay from `balance` unless events are free. */
const openDelivery = (balance = Infinity, isFree = false) => {
  const log = new TestLog()
  const scheduler = new FairScheduler(systemClock)
  const usage: CountedCall[] = []
  const charges: { readonly key: string; readonly credits: number }[] = []
  let left = balance
  const refuse = (key: string): undefined => {
    if (key === 'failing') throw new Error('a bug of a plugin')
  }
  let [isStoreAvailable, isDayOver] = [true, false]
  const held = new Map<string, Promise<void>>()
  const charge: EventRules['charge'] = async ({ key }, credits) => {
    await held.get(key.id)
    if (!isStoreAvailable) return { kind: 'storeUnavailable' }
    if (credits > left)
      return { kind: 'exhausted', limit: 1_000, used: 1_000, resetAt: midnight, quota, ...(key.id === 'limited' && { isKeyLimit: true }) }
    left -= credits
    const charge = { key: key.id, credits }
    charges.push(charge)
    const refund = (): boolean => {
      if (isDayOver) return false
      left += credits
      return charges.splice(charges.indexOf(charge), 1).length === 1
    }
    return { kind: 'charged', day: 7, quota, refund }
  }
  const delivery = new EventDelivery({
    accounts: { find: () => ({ kind: 'unknown' }) },
    events: composeEventRules([{ costOf: kind => costs[kind] ?? 0 }, ...(isFree ? [] : [{ charge, refuse: ({ id }: Key) => refuse(id) }])]),
    log,
    usage: createUsage(call => void usage.push(call), new TestClock()),
    network: { name: 'devnet', chainId: 1, blockTime: 1_000, devNode: false },
  })
  const subscribe = ({ key = 'key_1', accept = (): boolean => true, topic = { kind: 'newHeads' } as Topic } = {}) => {
    const socket = openPushSocket({ accept, turn: messages => scheduler.enter(key, Math.ceil(messages / 4)) })
    const subscription = socket.subscription(topic, key)
    subscription.begin()
    return { ...socket, subscription }
  }
  const deliver = async (subscriptions: readonly { subscription: Subscription }[], texts = ['"a"', '"b"'], options = {}) => {
    delivery.deliver(
      subscriptions.map(({ subscription }) => subscription),
      { bytes: 9, newMatcher: () => () => texts, ...options },
    )
    await turns(2)
  }
  const stopStore = (): void => {
    isStoreAvailable = false
  }
  const endDay = (): void => {
    isDayOver = true
  }
  const counted = () => usage.map(({ calls, key, method, credits, day }) => `${calls} ${key} ${method} ${credits} ${day ?? '-'}`)
  return { subscribe, deliver, delivery, charges, counted, stopStore, endDay, held, log }
}

t.test('events of a block', async t => {
  t.test('are charged once for each key, and counted for each subscription', async t => {
    const { subscribe, deliver, charges, counted } = openDelivery()
    const subscriptions = [subscribe(), subscribe(), subscribe({ key: 'key_2' }), subscribe({ key: 'key_2', topic: free })]
    await deliver(subscriptions)
    t.same(charges, [
      { key: 'key_1', credits: 100 },
      { key: 'key_2', credits: 50 },
    ])
    t.same(counted().sort(), ['1 key_2 eth_subscription 0 -', '1 key_2 eth_subscription 50 7', '2 key_1 eth_subscription 100 7'])
    for (const { sent } of subscriptions) t.same(sent, ['a', 'b'])
  })

  t.test('cost each KiB of messages that has begun, over all blocks', async t => {
    const { subscribe, deliver, charges } = openDelivery()
    const one = subscribe({ topic: logs })
    const creditsFor = async (...bytes: readonly number[]) => {
      await deliver([one], bytes.map(messageOf))
      return charges.splice(0).reduce((sum, { credits }) => sum + credits, 0)
    }
    t.equal(await creditsFor(300), 10)
    t.equal(await creditsFor(300, 424), 0, 'of the same KiB')
    t.equal(await creditsFor(1_025), 20)
    t.equal(await creditsFor(1_024), 10)
    t.equal(await creditsFor(...Array.from({ length: 100 }, () => 1_024)), 1_000)
  })

  t.test('that take others back are free, and in order with them', async t => {
    const { subscribe, deliver, charges, counted } = openDelivery()
    const one = subscribe()
    void deliver([one])
    await deliver([one], ['"c"'], { isFree: true })
    t.same(one.sent, ['a', 'b', 'c'])
    t.same([charges.length, counted()], [1, ['1 key_1 eth_subscription 50 7', '1 key_1 eth_subscription 0 -']])
  })

  t.test('of one key wait for no charge of another', async t => {
    const { subscribe, deliver, held } = openDelivery()
    const [slow, other] = [subscribe({ key: 'slow' }), subscribe()]
    const { promise, resolve: release } = deferred()
    held.set('slow', promise)
    for (let i = 0; i < 3; i++) await deliver([slow, other])
    t.same([slow.sent.length, other.sent.length], [0, 6])
    release()
    await turns(3)
    t.same(slow.sent, ['a', 'b', 'a', 'b', 'a', 'b'])
  })

  t.test('that wait are bounded: whoever falls behind loses its WebSocket, and nobody else', async t => {
    for (const bytes of [9, 20 << 20]) {
      const { subscribe, deliver, held } = openDelivery()
      const [slow, other] = [subscribe({ key: 'slow' }), subscribe()]
      held.set('slow', new Promise(() => undefined))
      for (let i = 0; i < 100; i++) await deliver([slow, other], ['"a"'], { bytes })
      t.match(slow.closed[0], /^1013 too many events are waiting/)
      t.same([other.closed, other.sent.length], [[], 100])
    }
  })

  t.test('of thousands of subscriptions of one account hold up no other, nor the event loop', async t => {
    const { subscribe, deliver } = openDelivery()
    let [sentToMany, sentToManyBefore, mostInTurn] = [0, Infinity, 0]
    const many = Array.from({ length: 1_500 }, () => subscribe({ key: 'many', topic: free, accept: () => (sentToMany += 1) > 0 }))
    const other = subscribe({ accept: () => (sentToManyBefore = Math.min(sentToManyBefore, sentToMany)) >= 0 })
    const delivered = deliver(
      [...many, other],
      Array.from({ length: 100 }, () => '"log"'),
    )
    while (sentToMany < 150_000) {
      const sentBefore = sentToMany
      await turns(1)
      mostInTurn = Math.max(mostInTurn, sentToMany - sentBefore)
    }
    await delivered
    t.ok(sentToManyBefore < 2_000 && mostInTurn < 2_000, `others after ${sentToManyBefore} of 150,000, ${mostInTurn} in a turn`)
    t.ok(many.every(({ sent }) => sent.length === 100))
  })

  t.test('of a key for which a plugin throws are lost to this key alone, which loses its WebSockets', async t => {
    const { subscribe, deliver, log } = openDelivery()
    const [failing, other] = [subscribe({ key: 'failing' }), subscribe()]
    for (let i = 0; i < 3; i++) await deliver([failing, other])
    t.same([failing.sent, other.sent.length, other.closed], [[], 6, []])
    t.equal(failing.closed[0], '1011 internal error')
    t.match(log.lines[0], { level: 'error', fields: { err: { message: 'a bug of a plugin' } } })
  })

  t.test('that cannot be sent are free', async t => {
    const { subscribe, deliver, charges, counted } = openDelivery()
    let isReading = true
    const slow = subscribe({ accept: () => isReading })
    const [other, gone] = [subscribe(), subscribe()]
    isReading = false
    gone.signal.abort()
    await deliver([slow, other, gone])
    t.same(charges, [{ key: 'key_1', credits: 50 }])
    t.same(counted(), ['1 key_1 eth_subscription 50 7'])
    t.same([slow.sent, other.sent, gone.sent], [[], ['a', 'b'], []])
  })

  t.test('of which some cannot be sent are charged once, also where the day of the charge is over', async t => {
    const { subscribe, deliver, charges, counted, endDay } = openDelivery()
    endDay()
    await deliver([subscribe(), subscribe({ accept: () => false })])
    t.same(charges, [{ key: 'key_1', credits: 100 }])
    t.same(counted(), ['1 key_1 eth_subscription 50 7'])
  })

  t.test('that cannot be paid close the WebSocket, and the reason says until when', async t => {
    const { subscribe, deliver, charges } = openDelivery(120)
    const [poor, limited, unpaying] = [subscribe(), subscribe({ key: 'limited' }), subscribe({ topic: free })]
    const texts = [messageOf(1_024)]
    await deliver([poor, limited, unpaying], texts)
    await deliver([poor, limited, unpaying], texts)
    t.equal(charges.length, 2)
    t.same(poor.closed, ['1008 the daily credits are used up until 2026-01-16T00:00:00.000Z'])
    t.same(limited.closed, ['1008 the daily limit of this API key is used up until 2026-01-16T00:00:00.000Z'])
    t.same([poor.sent.length, limited.sent.length, unpaying.sent.length], [1, 1, 2])
    for (const { closed } of [poor, limited]) t.ok(Buffer.byteLength(closed[0] ?? '') <= 123)
  })

  t.test('close the WebSocket when the store cannot charge them', async t => {
    const { subscribe, deliver, stopStore } = openDelivery()
    const one = subscribe()
    stopStore()
    await deliver([one])
    t.same([one.closed, one.sent], [['1013 credits cannot be charged now; connect again later'], []])
  })

  t.test('cost nothing where calls cost nothing', async t => {
    const { subscribe, deliver, charges } = openDelivery(Infinity, true)
    const one = subscribe()
    await deliver([one])
    t.same([one.sent, charges], [['a', 'b'], []])
  })
})

t.test('logs that are taken back go to those who got them, and to no later subscription', async t => {
  const { subscribe, delivery, held } = openDelivery()
  const [older, slow, late] = [subscribe({ topic: logs }), subscribe({ topic: logs, key: 'slow' }), subscribe({ topic: logs })]
  const subscriptions = new Set([older.subscription, slow.subscription])
  const publisher = new LogPublisher({ subscriptions, delivery, results })
  const block = { number: 7, hash: '0x7', parentHash: '0x6', json: '[{"address":"0x1","topics":[],"removed":false}]' }
  const { promise, resolve: release } = deferred()
  held.set('slow', promise)
  publisher.publish({ removed: [], added: [block] })
  subscriptions.add(late.subscription)
  publisher.publish({ removed: [block], added: [] })
  await turns(2)
  release()
  await turns(2)
  const isRemoved = (texts: readonly unknown[]) => texts.map(text => (text as { removed: boolean }).removed)
  t.same([isRemoved(older.sent), isRemoved(slow.sent), isRemoved(late.sent)], [[false, true], [false, true], []])
})

t.test('events that come before the caller has the id are sent after it, in order', async t => {
  const socket = openPushSocket()
  const subscription = socket.subscription()
  subscription.send(['1', '2'])
  subscription.send(['3'])
  t.same(socket.sent, [])
  subscription.begin()
  subscription.send(['4'])
  t.same(socket.sent, [1, 2, 3, 4])
})
