import t from '../../../support/tap.ts'
import type { Test } from 'tap'
import type { Json } from '../../../../src/plugin/call.ts'
import { refuse } from '../../../../src/plugin/reply.ts'
import { Secret } from '../../../../src/plugin/secret.ts'
import { PendingSource } from '../../../../src/services/chain-heads/feeds/pending-source.ts'
import type { PoolUpstream } from '../../../../src/services/chain-heads/feeds/pending-readers.ts'
import { SyncingSource } from '../../../../src/services/chain-heads/feeds/chain-feeds.ts'
import { TestClock, fakeResult } from '../../../support/fakes.ts'
import { hashOf, startFakeSubscriptionNode } from '../../../support/fake-subscription-node.ts'
import { waitUntil } from '../../../support/wait-until.ts'

const ignore = (): void => undefined

const transactionOf = (number: number) => ({ hash: hashOf(number), value: '0x1' })

/** What a node answers by method: a result, an Error for an error of the node, undefined for no answer. */
type Answers = Record<string, ((...params: readonly Json[]) => Json | Error | undefined) | undefined>

const upstreamOf = (name: string, answers: Answers, url?: string) => {
  const requests: string[] = []
  const upstream: PoolUpstream = {
    name,
    ws: url === undefined ? undefined : new Secret(url),
    headers: { 'x-api-key': new Secret('pending-key') },
    request: async (method, ...params) => {
      requests.push(method)
      const answer = answers[method]?.(...params)
      if (answer === undefined) return refuse('unavailable', { upstream: name, cause: 'ECONNREFUSED' })
      if (!(answer instanceof Error)) return fakeResult(answer)
      return { kind: 'node', source: 'node', fault: 'caller', status: 200, error: { code: -32000, message: answer.message } }
    },
  }
  return { upstream, requests }
}

/** A node with a filter, whose next poll returns these. */
const openFilterNode = (name: string) => {
  const changes: Json[] = []
  const answers: Answers = {
    eth_newPendingTransactionFilter: isFull => (isFull === undefined ? '0x1' : new Error('no parameter')),
    eth_getFilterChanges: () => changes.splice(0),
    eth_getTransactionByHash: hash => ({ hash: hash ?? null, value: '0x2' }),
    eth_uninstallFilter: () => true,
  }
  return { ...upstreamOf(name, answers), answers, changes }
}

const openSource = (t: Test, upstreams: readonly PoolUpstream[], isFull = false) => {
  const clock = new TestClock()
  const events: Json[] = []
  const drained = new Set<string>()
  const source = new PendingSource({
    clock,
    chainId: 1,
    random: () => 0,
    pollIntervalMs: 500,
    isFull,
    upstreams: () => upstreams.filter(({ name }) => !drained.has(name)),
    isDrained: name => drained.has(name),
    publish: update => void events.push(...update.events.map(event => JSON.parse(event) as Json)),
  })
  t.teardown(() => source.stop())
  return { source, clock, events, drained }
}

const settle = () => new Promise(setImmediate)

t.test('pending transactions', async t => {
  t.test('are polled from a filter, and each is published once', async t => {
    const node = openFilterNode('a')
    const { source, clock, events } = openSource(t, [node.upstream])
    t.equal(await source.start(ignore), true)
    node.changes.push(hashOf(1), hashOf(2), hashOf(1), 'nonsense')
    clock.advance(500)
    await settle()
    clock.advance(50)
    t.same(events, [hashOf(1), hashOf(2)])
    node.changes.push(hashOf(2), hashOf(3))
    await source.sync(ignore)
    t.same(events, [hashOf(1), hashOf(2), hashOf(3)])
    source.stop()
    t.equal(node.requests.at(-1), 'eth_uninstallFilter')
    t.equal(clock.timerCount, 0)
  })

  t.test('are read from another node, or from none, once the node is drained, and from it again when that has ended', async t => {
    for (const others of [[openFilterNode('b')], []]) {
      const node = openFilterNode('a')
      const { source, clock, events, drained } = openSource(
        t,
        [node, ...others].map(({ upstream }) => upstream),
      )
      await source.start(ignore)
      drained.add('a')
      clock.advance(1_000)
      await settle()
      t.equal(node.requests.at(-1), 'eth_uninstallFilter')
      const sent = node.requests.length
      for (const each of [node, ...others]) each.changes.push(hashOf(1))
      for (let i = 0; i < 20; i++) {
        clock.advance(500)
        await settle()
      }
      t.equal(node.requests.length, sent, 'it is sent nothing')
      t.same(events, others.length === 0 ? [] : [hashOf(1)])
      drained.clear()
      for (let i = 0; i < 4; i++) {
        clock.advance(500)
        await settle()
      }
      if (others.length === 0) t.same(events, [hashOf(1)])
      source.stop()
    }
  })

  t.test('of a node that does not know its filter any more come from a new one', async t => {
    const node = openFilterNode('a')
    const { source, events } = openSource(t, [node.upstream])
    await source.start(ignore)
    const { eth_getFilterChanges: poll } = node.answers
    node.answers['eth_getFilterChanges'] = () => new Error('filter not found')
    await source.sync(ignore)
    node.answers['eth_getFilterChanges'] = poll
    node.changes.push(hashOf(1))
    await source.sync(ignore)
    t.equal(node.requests.filter(method => method === 'eth_newPendingTransactionFilter').length, 2)
    t.same(events, [hashOf(1)])
  })

  t.test('of a node that has forgotten its filter, and makes no new one, are those that come to its pool after that', async t => {
    const node = openFilterNode('a')
    const { source, events } = openSource(t, [node.upstream], true)
    await source.start(ignore)
    let pool = Array.from({ length: 5_000 }, (_, i) => transactionOf(i))
    node.answers['eth_getFilterChanges'] = () => new Error('filter not found')
    node.answers['eth_newPendingTransactionFilter'] = () => new Error('too many filters')
    // Neither does it return its pool at once.
    await source.sync(ignore)
    node.answers['txpool_content'] = () => ({ pending: { '0xa': Object.fromEntries(pool.entries()) } })
    await source.sync(ignore)
    t.equal(events.length, 0, 'what is in the pool is not new')
    pool = [...pool, transactionOf(5_000)]
    await source.sync(ignore)
    t.same(events, [transactionOf(5_000)])
  })

  t.test('come from a filter again when the node makes one, for which it is asked more and more seldom', async t => {
    const node = openFilterNode('a')
    const pool = [transactionOf(1)]
    const { eth_newPendingTransactionFilter: create } = node.answers
    node.answers['eth_newPendingTransactionFilter'] = () => new Error('too many filters')
    node.answers['txpool_content'] = () => ({ pending: { '0xa': Object.fromEntries(pool.entries()) } })
    const { source, clock, events } = openSource(t, [node.upstream])
    const askedAt: number[] = []
    const startedAt = clock.monotonic()
    const pass = async (ms: number) => {
      for (let left = ms; left > 0; left -= 500) {
        node.requests.length = 0
        clock.advance(500)
        for (let i = 0; i < 3; i++) await settle()
        if (node.requests.includes('eth_newPendingTransactionFilter')) askedAt.push((clock.monotonic() - startedAt) / 1_000)
      }
    }
    t.equal(await source.start(ignore), true)
    await pass(1_300_000)
    t.same(askedAt, [10, 30, 70, 150, 310, 610, 910, 1_210])
    node.answers['eth_newPendingTransactionFilter'] = create
    pool.push(transactionOf(2))
    await pass(299_500)
    t.notOk(node.requests.includes('txpool_content'), 'only the filter is polled')
    node.changes.push(hashOf(2), hashOf(3))
    await source.sync(ignore)
    t.same(events, [hashOf(2), hashOf(3)])
    node.answers['eth_getFilterChanges'] = () => new Error('filter not found')
    node.answers['eth_newPendingTransactionFilter'] = () => new Error('too many filters')
    await source.sync(ignore)
    askedAt.length = 0
    await pass(30_000)
    t.equal(askedAt.length, 2, 'after 10 s and 20 s again')
  })

  for (const isFull of [false, true]) {
    t.test(`with a hash that is not in lower case are as good as others, ${isFull ? 'as transactions' : 'as hashes'}`, async t => {
      const node = openFilterNode('a')
      const upperCase = (number: number) => `0x${hashOf(number).slice(2).toUpperCase()}`
      node.answers['eth_getTransactionByHash'] = () => ({ hash: upperCase(0xab), value: '0x2' })
      const { source, clock, events } = openSource(t, [node.upstream], isFull)
      await source.start(ignore)
      node.changes.push(upperCase(0xab), upperCase(0xab))
      await source.sync(ignore)
      for (let i = 0; i < 4; i++) await settle()
      clock.advance(50)
      t.same(events, [isFull ? { hash: upperCase(0xab), value: '0x2' } : hashOf(0xab)], 'once')
    })
  }

  t.test('are the new ones of the whole pool where a node has no filters', async t => {
    let pool = [transactionOf(1)]
    const answers: Answers = { txpool_content: () => ({ pending: { '0xa': Object.fromEntries(pool.entries()) }, queued: {} }) }
    const { source, events } = openSource(t, [upstreamOf('a', answers).upstream], true)
    t.equal(await source.start(ignore), true)
    pool = [transactionOf(1), transactionOf(2)]
    await source.sync(ignore)
    pool = [transactionOf(3)]
    await source.sync(ignore)
    t.same(events, [transactionOf(2), transactionOf(3)])
  })

  t.test('are requested by their hash where a node returns hashes alone', async t => {
    const node = openFilterNode('a')
    const { source, clock, events } = openSource(t, [node.upstream], true)
    await source.start(ignore)
    node.changes.push(...Array.from({ length: 20 }, (_, i) => hashOf(i)))
    await source.sync(ignore)
    for (let i = 0; i < 20; i++) await settle()
    clock.advance(50)
    t.same(
      events,
      Array.from({ length: 20 }, (_, i) => ({ hash: hashOf(i), value: '0x2' })),
    )
  })

  t.test('come over the WebSocket of an upstream, and from another upstream when it is lost', async t => {
    const node = await startFakeSubscriptionNode(1)
    t.teardown(() => node.stop())
    const other = openFilterNode('b')
    const { source, clock, events } = openSource(t, [other.upstream, upstreamOf('a', {}, node.url).upstream])
    t.equal(await source.start(ignore), true)
    t.match(node.upgradeHeaders, [{ 'x-api-key': 'pending-key' }])
    t.same(other.requests, [])
    node.publish(hashOf(1))
    node.publish({ hash: hashOf(2) })
    await waitUntil(() => {
      clock.advance(50)
      return events.length === 2
    })
    await node.stop()
    await waitUntil(() => other.requests.includes('eth_newPendingTransactionFilter'))
    await settle()
    other.changes.push(hashOf(2), hashOf(3))
    await source.sync(ignore)
    t.same(events, [hashOf(1), hashOf(2), hashOf(3)])
  })

  t.test('come from another upstream when the WebSocket is silent and does not answer pings', async t => {
    const node = await startFakeSubscriptionNode(1, 0, { autoPong: false })
    t.teardown(() => node.stop())
    const other = openFilterNode('b')
    const { source, clock } = openSource(t, [other.upstream, upstreamOf('a', {}, node.url).upstream])
    await source.start(ignore)
    clock.advance(15_000)
    t.same(other.requests, [])
    clock.advance(15_000)
    await waitUntil(() => other.requests.includes('eth_newPendingTransactionFilter'))
  })

  t.test('come from another upstream after three failed polls, and wait for one where none answers', async t => {
    const [first, second] = [openFilterNode('a'), openFilterNode('b')]
    const { source, clock, events } = openSource(t, [first.upstream, second.upstream])
    await source.start(ignore)
    for (const { answers } of [first, second]) for (const method of Object.keys(answers)) answers[method] = undefined
    for (let i = 0; i < 3; i++) await source.sync(ignore)
    await settle()
    second.answers['eth_newPendingTransactionFilter'] = () => '0x2'
    second.answers['eth_getFilterChanges'] = () => [hashOf(4)]
    for (let i = 0; i < 4; i++) {
      clock.advance(500)
      await settle()
    }
    await source.sync(ignore)
    t.same(events, [hashOf(4)])
  })

  t.test('do not come any more from an upstream that is no longer used', async t => {
    const [first, second] = [openFilterNode('a'), openFilterNode('b')]
    const upstreams = [first.upstream, second.upstream]
    const { source, clock, events } = openSource(t, upstreams)
    await source.start(ignore)
    upstreams.shift()
    clock.advance(5_000)
    await settle()
    first.changes.push(hashOf(1))
    second.changes.push(hashOf(2))
    await source.sync(ignore)
    t.same(events, [hashOf(2)])
    upstreams.shift()
    clock.advance(5_000)
    await settle()
    second.changes.push(hashOf(3))
    await source.sync(ignore)
    t.same(events, [hashOf(2), hashOf(3)], 'while there is no other, it stays')
  })

  t.test('do not start where no upstream returns them', async t => {
    const node = upstreamOf('a', { eth_newPendingTransactionFilter: () => new Error('not found') })
    const { source, clock } = openSource(t, [node.upstream])
    t.equal(await source.start(ignore), false)
    t.equal(clock.timerCount, 0)
  })
})

t.test('syncing is an event when the best upstream begins to synchronize, and when it has ended', async t => {
  const clock = new TestClock()
  const events: string[] = []
  let status: Json | undefined = false
  const { upstream } = upstreamOf('a', { eth_syncing: () => status })
  const source = new SyncingSource({ clock, upstreams: () => [upstream], publish: update => void events.push(...update.events) })
  t.equal(await source.start(ignore), true)
  for (const next of [{ currentBlock: '0x1' }, { currentBlock: '0x2' }, undefined, false, false]) {
    status = next
    clock.advance(5_000)
    await settle()
  }
  t.same(events, ['{"syncing":true,"status":{"currentBlock":"0x1"}}', 'false'])
  source.stop()
  t.equal(clock.timerCount, 0)
  status = undefined
  t.equal(await source.start(ignore), false, 'the upstream does not answer')
  source.stop()
})
