import t from '../../support/tap.ts'
import { VerifiedFeed } from '../../../plugins/subscriptions/verified-feed.ts'
import type { ChainUpdate, Feed, FeedListener } from '../../../src/plugin/internal.ts'
import type { FeedBlock } from '../../../src/services/index.ts'
import { TestClock } from '../../support/fakes.ts'

const block = (number: number, branch = 'a'): FeedBlock => ({
  number,
  hash: `${branch}${number}`,
  parentHash: `${branch}${number - 1}`,
  json: `raw ${branch}${number}`,
})

/** A feed that the test publishes, and what a listener behind verification gets of it. */
const openFeed = (verify: (block: FeedBlock) => string | undefined | Promise<string | undefined>, isStarted = true) => {
  const clock = new TestClock()
  const sources = new Set<FeedListener>()
  const feed: Feed = {
    subscribe(listener, onStarted) {
      sources.add(listener)
      onStarted?.()
      return { isStarted: Promise.resolve(isStarted), close: () => void sources.delete(listener) }
    },
    sync: async onSynced => onSynced?.(),
  }
  const verified = new VerifiedFeed({ feed, events: { verifyLogs: verify, logsVerifiedBy: () => 'proof' }, clock })
  const events: string[] = []
  const listener: FeedListener = {
    onUpdate({ removed, added }) {
      events.push(...removed.map(({ hash }) => `-${hash}`), ...added.map(({ hash, json }) => `+${hash} ${json}`))
    },
    onEnd: bug => void events.push(bug === undefined ? 'end' : `end: ${bug}`),
  }
  const subscription = verified.subscribe(listener)
  return {
    clock,
    events,
    verified,
    subscription,
    sources,
    publish(added: readonly FeedBlock[], removed: readonly FeedBlock[] = []) {
      const update: ChainUpdate = { removed, added }
      for (const source of sources) source.onUpdate(update)
    },
  }
}

/** Lets promises settle, and the clock come to its timers. */
const settle = async (clock: TestClock, ms = 0) => {
  for (let i = 0; i < 20; i++) await null
  if (ms > 0) {
    clock.advance(ms)
    await settle(clock)
  }
}

t.test('a feed whose blocks are verified', async t => {
  t.test('passes updates on at once where nothing has to wait', async t => {
    const { publish, events } = openFeed(({ json }) => json)
    publish([block(1), block(2)])
    publish([block(2, 'b')], [block(2)])
    t.same(events, ['+a1 raw a1', '+a2 raw a2', '-a2', '+b2 raw b2'])
  })

  t.test('publishes what is verified, in the order of the blocks', async t => {
    const waiting = new Map<string, (text: string) => void>()
    const { publish, events, clock, verified } = openFeed(({ hash }) => new Promise(resolve => waiting.set(hash, resolve)))
    publish([block(1), block(2)])
    publish([block(3)])
    const synced = verified.sync(() => events.push('synced'))
    await settle(clock)
    waiting.get('a2')?.('second')
    await settle(clock)
    t.same(events, [])
    waiting.get('a1')?.('first')
    await settle(clock)
    t.same(events, ['+a1 first', '+a2 second'])
    waiting.get('a3')?.('third')
    await synced
    t.same(events, ['+a1 first', '+a2 second', '+a3 third', 'synced'])
  })

  t.test('tries a block again, and never publishes one that is removed before', async t => {
    let isReady = false
    const { publish, events, clock } = openFeed(async ({ hash }) => (isReady || hash === 'a1' ? `ok ${hash}` : undefined))
    publish([block(1), block(2), block(3)])
    await settle(clock, 250)
    t.same(events, [])
    publish([block(2, 'b')], [block(3), block(2)])
    await settle(clock, 250)
    t.same(events, ['+a1 ok a1'])
    isReady = true
    await settle(clock, 250)
    t.same(events, ['+a1 ok a1', '+b2 ok b2'])
    publish([], [block(2, 'b')])
    await settle(clock)
    t.same(events.at(-1), '-b2')
  })

  t.test('takes a block back that has come back and was published then', async t => {
    let attempts = 0
    const { publish, events, clock } = openFeed(async ({ hash }) => (hash === 'a2' && (attempts += 1) === 1 ? undefined : 'ok'))
    publish([block(1), block(2)])
    publish([block(2, 'b')], [block(2)])
    publish([block(2)], [block(2, 'b')])
    publish([block(2, 'c')], [block(2)])
    await settle(clock)
    t.same(events, ['+a1 ok', '+b2 ok', '-b2', '+a2 ok', '-a2', '+c2 ok'])
  })

  t.test('ends where a block cannot be verified for a minute', async t => {
    const { publish, events, clock, sources } = openFeed(() => undefined)
    publish([block(1)])
    for (let i = 0; i < 241; i++) await settle(clock, 250)
    t.same(events, ['end'])
    t.equal(sources.size, 0)
  })

  t.test('ends where verification throws', async t => {
    const { publish, events, verified } = openFeed(() => Promise.reject(new Error('a bug')))
    publish([block(1)])
    await verified.sync()
    t.same(events, ['end: Error: a bug'])
  })

  t.test('is in sync behind the blocks that wait, at most 2 s later', async t => {
    let ready = (_: string): void => undefined
    const { publish, events, clock, verified } = openFeed(() => new Promise(resolve => (ready = resolve)))
    await verified.sync(() => void events.push('synced'))
    publish([block(1)])
    const synced = verified.sync(() => void events.push('synced'))
    ready('first')
    await synced
    publish([block(2)])
    const late = verified.sync(() => void events.push('synced late'))
    await settle(clock, 2_000)
    await late
    ready('second')
    await settle(clock)
    t.same(events, ['synced', '+a1 first', 'synced', 'synced late', '+a2 second'])
  })

  t.test('publishes nothing once it is closed', async t => {
    const { publish, events, clock, subscription } = openFeed(async ({ json }) => json)
    publish([block(1)])
    subscription.close()
    await settle(clock, 250)
    t.same(events, [])
  })

  t.test('keeps nothing of a listener for whom the feed does not start', async t => {
    const { subscription, sources, publish, events } = openFeed(({ json }) => json, false)
    t.equal(sources.size, 1)
    t.equal(await subscription.isStarted, false)
    t.equal(sources.size, 0)
    publish([block(1)])
    t.same(events, [])
  })
})
