import t from '../../support/tap.ts'
import { FeedConsumer } from '../../../plugins/subscriptions/feed-consumer.ts'
import { FilterValues } from '../../../plugins/subscriptions/used-filters.ts'
import { parseLogFilter } from '../../../plugins/subscriptions/log-filter.ts'
import { Subscription } from '../../../plugins/subscriptions/subscription.ts'
import type { Topic } from '../../../plugins/subscriptions/subscription.ts'
import { SubscriptionRegistry } from '../../../plugins/subscriptions/subscription-registry.ts'
import { SharedFeed } from '../../../src/services/chain-heads/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { openPushSocket } from './push-socket-fixture.ts'

t.test('a subscription', async t => {
  t.test('of a WebSocket that has closed is removed at once, also when there were others before', async t => {
    for (const olderCount of [0, 1]) {
      let removedCount = 0
      const registry = new SubscriptionRegistry({ metrics: createMetricsRegistry() }, new FilterValues(), () => (removedCount += 1))
      const socket = openPushSocket()
      for (let i = 0; i < olderCount; i++) registry.add(socket.subscription())
      socket.signal.abort()
      const late = socket.subscription()
      registry.add(late)
      t.equal(registry.activate(late), false)
      t.equal(removedCount, olderCount + 1)
      t.equal(registry.limitOf(late.topic, openPushSocket().subscription().subscriber, 1), undefined, 'it does not count')
    }
  })

  t.test('of a WebSocket that had others before a reload opened the subscriptions anew is removed when the WebSocket closes', async t => {
    const open = () => {
      const removed: Subscription[] = []
      return {
        removed,
        registry: new SubscriptionRegistry({ metrics: createMetricsRegistry() }, new FilterValues(), each => removed.push(each)),
      }
    }
    const [before, after] = [open(), open()]
    const socket = openPushSocket()
    const [old, current] = [socket.subscription(), socket.subscription()]
    before.registry.add(old)
    t.equal(before.registry.remove(old), true)
    after.registry.add(current)
    t.equal(after.registry.activate(current), true)
    t.equal(before.registry.find(current.subscriber.origin, current.id), undefined)
    socket.signal.abort()
    t.same([before.removed, after.removed], [[old], [current]])
    t.equal(after.registry.of('newHeads').size, 0)
    t.equal(after.registry.limitOf(current.topic, openPushSocket().subscription().subscriber, 1), undefined, 'it does not count')
  })

  t.test('is counted in the metric beside those from before a reload whose sockets are closing', async t => {
    const metrics = createMetricsRegistry()
    const [before, after] = [1, 2].map(() => new SubscriptionRegistry({ metrics }, new FilterValues(), () => undefined))
    const [old, current] = [openPushSocket(), openPushSocket()].map(socket => socket.subscription())
    if (before === undefined || after === undefined || old === undefined || current === undefined) throw new Error('not opened')
    before.add(old)
    before.begin(old)
    after.add(current)
    after.begin(current)
    const counted = () => metrics.families()[0]?.series.find(({ labels }) => labels['kind'] === 'newHeads')?.values[0]
    t.equal(counted(), 2)
    before.remove(old)
    t.equal(counted(), 1)
  })

  t.test('gets no event after it has been removed', async t => {
    const registry = new SubscriptionRegistry({ metrics: createMetricsRegistry() }, new FilterValues(), () => undefined)
    const { subscription, sent } = openPushSocket()
    const ended = subscription()
    registry.add(ended)
    registry.begin(ended)
    t.equal(ended.isOpen, true)
    registry.remove(ended)
    t.equal(ended.isOpen, false)
    t.same(sent, [])
  })

  t.test('to logs counts by its addresses and topics until it is removed', async t => {
    const registry = new SubscriptionRegistry({ metrics: createMetricsRegistry() }, new FilterValues(), () => undefined)
    const filter = parseLogFilter({ topics: [Array.from({ length: 100_000 }, (_, i) => `0x${i}`)] }, 'eth_subscribe')
    const small = parseLogFilter({ address: '0x1' }, 'eth_subscribe')
    if ('error' in filter || 'error' in small) throw new Error('not parsed')
    const { subscriber } = openPushSocket().subscription()
    const limitOf = (topic: Topic) => registry.limitOf(topic, subscriber, 9)
    const large = new Subscription({ kind: 'logs', filter }, subscriber)
    t.equal(limitOf(large.topic), undefined)
    registry.add(large)
    t.equal(limitOf({ kind: 'logs', filter: small }), 'at most 100000 addresses, topics and hashes of one account')
    t.equal(limitOf({ kind: 'newHeads' }), undefined)
    registry.remove(large)
    t.equal(limitOf(large.topic), undefined)
  })

  t.test('whose id is never sent does not collect events for ever', async t => {
    const { subscription, closed } = openPushSocket()
    const waiting = subscription()
    let heldCount = 0
    while (heldCount < 100_000 && waiting.send(['1'])) heldCount += 1
    t.ok(heldCount > 10 && heldCount < 100_000)
    t.match(closed, [/^1013 /])
  })
})

t.test('an update that is not handled because of a bug ends the feed', t => {
  const feed = new SharedFeed({ start: async () => true, stop: () => undefined, sync: async () => undefined })
  const ends: unknown[] = []
  const handled: unknown[] = []
  const handle = (update: unknown): void => {
    if (handled.push(update) === 2) throw new Error('bug')
  }
  const consumer = new FeedConsumer({ feed, handle, onEnd: bug => void ends.push(bug) })
  void consumer.retain()
  const update = { removed: [], added: [] }
  for (let i = 0; i < 3; i++) feed.publish(update)
  t.same([handled.length, ends.map(String)], [2, ['Error: bug']])
  t.end()
})

t.test('a feed that ends while it is joined has not started', async t => {
  const feed: SharedFeed = new SharedFeed({
    start: async () => true,
    stop: () => undefined,
    sync: async () => feed.end(),
  })
  const consumer = new FeedConsumer({ feed, handle: () => undefined, onEnd: () => undefined })
  t.equal(await consumer.retain(), true)
  t.equal(await consumer.retain(), false, 'who joined would get no event')
  consumer.release()
  consumer.release()
})
