import t from 'tap'
import type { Target } from '../../../src/plugin/call.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { openUpstreamClient } from '../../../src/services/upstream-client/index.ts'
import type { UpstreamClient } from '../../../src/services/upstream-client/index.ts'
import { createMemoryBudget } from '../../../src/services/memory-budget.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { NewHeadsSubscription } from '../../../src/services/chain-heads/new-heads-subscription.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { startAnvilChain } from '../../support/anvil-chain.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
import { startSubscriptionNode } from '../../support/fake-subscription-node.ts'
import type { FakeSubscriptionNode } from '../../support/fake-subscription-node.ts'

const hash = (number: number) => `0x${number.toString(16).padStart(64, '0')}`
const rawBlock = (number: number) => ({
  number: `0x${number.toString(16)}`,
  hash: hash(number),
  parentHash: hash(number - 1),
  timestamp: '0x1',
})
/** Fails after 10 s. */
const waitUntil = async (isThere: () => boolean) => {
  for (let left = 5000; !isThere(); left--) {
    if (left === 0) throw new Error(`never: ${isThere}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}

/** A feed at a node of chain 1, by a clock that is turned by hand. */
const openSubscription = async (t: Tap.Test, teller?: FakeSubscriptionNode) => {
  const node = teller ?? (await startSubscriptionNode(1))
  const clock = new TestClock()
  const events: string[] = []
  const subscription = new NewHeadsSubscription({
    url: new Secret(`${node.url}/canary`),
    chainId: 1,
    staleAfterMs: 4000,
    clock,
    random: () => 0.5,
    onHead: ({ number }) => events.push(`block ${number}`),
    onSubscribed: again => events.push(again ? 'open again' : 'open'),
    onFailure: cause => events.push(`end: ${cause}`),
  })
  t.teardown(async () => {
    subscription.close()
    await node.stop()
  })
  const next = async (event: string | RegExp) => {
    await waitUntil(() => events.some(each => (typeof event === 'string' ? each === event : event.test(each))))
    return events.splice(0)
  }
  return { node, clock, feed: subscription, events, next }
}

declare namespace Tap {
  type Test = Pick<typeof t, 'teardown'>
}

t.test('a subscription', async t => {
  t.test('begins once the node has told its chain, and tells of each head', async t => {
    const { node, feed, next } = await openSubscription(t)
    t.notOk(feed.isFresh)
    feed.open()
    feed.open()
    t.same(await next('open'), ['open'])
    t.same(node.requestedMethods, ['eth_chainId', 'eth_subscribe'])
    t.ok(feed.isFresh)
    node.publishHead(rawBlock(5))
    node.publishHead({ nonsense: true })
    node.publishHead(rawBlock(6))
    t.same(await next('block 6'), ['block 5', 'block 6'])
  })

  t.test('comes back after the node closed it, later each time, and asks for the chain again', async t => {
    const { node, clock, feed, events, next } = await openSubscription(t)
    feed.open()
    await next('open')
    node.publishHead(rawBlock(5))
    await next('block 5')
    for (const wait of [375, 750, 1500]) {
      node.dropConnections()
      t.same(await next(/^end/), ['end: connection closed'])
      t.notOk(feed.isFresh)
      clock.advance(wait - 1)
      await new Promise(setImmediate)
      t.equal(node.connectionCount, 0, `not before ${wait} ms`)
      clock.advance(1)
      t.same(await next(/^open/), ['open again'])
    }
    t.equal(node.requestedMethods.filter(method => method === 'eth_chainId').length, 4)
    node.publishHead(rawBlock(6))
    await next('block 6')
    node.dropConnections()
    await next(/^end/)
    clock.advance(375)
    t.same(await next(/^open/), ['open again'], 'a head makes up for all')
    t.same(events, [])
  })

  t.test('that has told nothing for its patience cannot be relied on, until it tells again', async t => {
    const { node, clock, feed, next } = await openSubscription(t)
    feed.open()
    await next('open')
    clock.advance(3999)
    t.ok(feed.isFresh)
    clock.advance(1)
    t.notOk(feed.isFresh)
    node.publishHead(rawBlock(5))
    await next('block 5')
    t.ok(feed.isFresh)
  })

  t.test('that has not told of a head which two polls have shown is given up', async t => {
    const { node, clock, feed, events, next } = await openSubscription(t)
    feed.open()
    await next('open')
    node.publishHead(rawBlock(5))
    await next('block 5')
    const shown = (number: number) => feed.comparePolledHead({ number, hash: hash(number), parentHash: hash(number - 1) })
    shown(5)
    shown(5)
    shown(6)
    t.same(events, [])
    node.publishHead(rawBlock(6))
    await next('block 6')
    shown(7)
    t.same(events, [])
    shown(7)
    t.same(await next(/^end/), ['end: polls return heads that the subscription does not'])
    clock.advance(375)
    await next('open again')
  })

  const troubles: readonly [string, (node: FakeSubscriptionNode) => void, RegExp][] = [
    ['is on another chain', node => node.setResponse('eth_chainId', '0x5'), /^end: wrong chain ID 5$/],
    [
      'does not tell its chain',
      node => node.setResponse('eth_chainId', { error: { code: -32601, message: 'no' } }),
      /^end: eth_chainId failed$/,
    ],
    [
      'does not know eth_subscribe',
      node => node.setResponse('eth_subscribe', { error: { code: -32601, message: 'no' } }),
      /^end: eth_subscribe failed$/,
    ],
  ]
  for (const [what, spoil, cause] of troubles) {
    t.test(`at a node that ${what} never begins, and this is told once`, async t => {
      const { node, clock, feed, events, next } = await openSubscription(t)
      spoil(node)
      feed.open()
      t.match(await next(/^end/), [cause])
      t.notOk(feed.isFresh)
      clock.advance(300_000)
      await node.waitForRequests('eth_chainId', 2)
      await new Promise(setImmediate)
      t.same(events, [])
      t.notOk(node.requestedMethods.slice(1).includes('eth_getBlockByNumber'))
    })
  }

  t.test('that gets no answer is given up after 5 s', async t => {
    const { node, clock, feed, next } = await openSubscription(t)
    node.setResponse('eth_subscribe', undefined)
    feed.open()
    await node.waitForRequests('eth_subscribe', 1)
    clock.advance(5000)
    t.same(await next(/^end/), ['end: subscribing timed out'])
  })

  t.test('ends when what comes is no JSON, too deep or too long', async t => {
    for (const text of ['nonsense', '['.repeat(1000), `"${'x'.repeat(200_000)}"`]) {
      const { node, feed, next } = await openSubscription(t)
      feed.open()
      await next('open')
      node.sendText(text)
      t.match(await next(/^end/), [/^end: /])
    }
  })

  t.test('that cannot connect says why without its URL', async t => {
    const node = await startSubscriptionNode(1)
    await node.stop()
    const { feed, next } = await openSubscription(t, { ...node, stop: async () => undefined })
    feed.open()
    const [said] = await next(/^end/)
    t.match(said, /connection refused/)
    t.notMatch(said, /canary|127/)
  })

  t.test('at what is no URL of a WebSocket ends no process', async t => {
    const node = await startSubscriptionNode(1)
    const { feed, next } = await openSubscription(t, { ...node, url: `${node.url}/#` })
    feed.open()
    t.same(await next(/^end/), ['end: invalid WebSocket URL'])
  })

  t.test('is closed, and stays so, when nobody wants it any more', async t => {
    const { node, clock, feed, events, next } = await openSubscription(t)
    feed.open()
    await next('open')
    feed.close()
    await waitUntil(() => node.connectionCount === 0)
    clock.advance(600_000)
    await new Promise(setImmediate)
    t.same([node.connectionCount, events], [0, []])
    feed.open()
    await next(/^open/)
    feed.close()
    feed.close()
  })
})

t.test('heads by subscription', async t => {
  /** Heads of one node whose HTTP side answers from here; blocks take 1 s, polls 500 ms. */
  const follow = async (t: Tap.Test) => {
    const node = await startSubscriptionNode(1)
    const clock = new TestClock()
    const log = new TestLog()
    const asked: string[] = []
    let head = 100
    const agents: UpstreamClient = {
      disconnects: () => 0,
      async request(_target, { method, params }) {
        asked.push(params[0] === 'latest' ? 'head' : method)
        return fakeResult(method === 'eth_chainId' ? '0x1' : params[0] === 'finalized' ? null : rawBlock(head))
      },
    }
    const heads = new HeadTracker({ chainId: 1, blockTime: 1000, upstreamClient: agents, clock, log, metrics: createMetricsRegistry() })
    const target: Target = { name: 'a', url: new Secret('http://a.test'), ws: new Secret(node.url), source: 'node' }
    const stop = heads.track([target])
    t.teardown(async () => {
      stop()
      await node.stop()
    })
    const turn = async (ms: number) => {
      for (let left = ms; left > 0; left -= 500) {
        clock.advance(Math.min(500, left))
        await new Promise(setImmediate)
      }
    }
    const polls = () => asked.splice(0).filter(each => each === 'head').length
    const isSubscribed = () => heads.status.upstreams[0]?.subscribed === true
    const subscribe = async () => {
      heads.recordActivity()
      await node.waitForRequests('eth_subscribe', 1)
      await waitUntil(() => {
        clock.advance(500)
        return isSubscribed()
      })
      polls()
    }
    return {
      node,
      heads,
      clock,
      log,
      turn,
      polls,
      subscribe,
      isSubscribed,
      asked,
      stop,
      show: (number: number) => {
        head = number
      },
    }
  }

  t.test('cost no polls, and count as those of polls do', async t => {
    const { node, heads, polls, subscribe, turn } = await follow(t)
    await subscribe()
    const { headVersion: epoch } = heads.snapshot
    node.publishHead(rawBlock(101))
    await waitUntil(() => heads.status.head === 101)
    await turn(3000)
    t.equal(polls(), 0)
    t.not(heads.snapshot.headVersion, epoch)
    t.ok(heads.snapshot.isCurrent('a'))
    t.equal(heads.reportHeight('a', 100), 101)
  })

  t.test('of a branch that the node comes to, block by block, do not take the height back; a chain that stays shorter does', async t => {
    const { node, heads, subscribe, clock, turn } = await follow(t)
    await subscribe()
    node.publishHead(rawBlock(105))
    await waitUntil(() => heads.status.head === 105)
    for (const number of [100, 101, 102, 103, 104]) {
      node.publishHead(rawBlock(number))
      await waitUntil(() => heads.status.head === number)
      t.equal(heads.reportHeight('a', number), 105)
    }
    node.publishHead(rawBlock(106))
    await waitUntil(() => heads.status.head === 106)
    for (const number of [50, 51, 52, 53, 54, 55]) {
      await turn(0)
      clock.advance(500)
      node.publishHead(rawBlock(number))
      await waitUntil(() => heads.status.head === number)
    }
    t.equal(heads.reportHeight('a', 55), 55)
  })

  t.test('that stay away are polled for until they come again', async t => {
    const { node, heads, polls, subscribe, turn, show } = await follow(t)
    await subscribe()
    node.publishHead(rawBlock(101))
    await waitUntil(() => heads.status.head === 101)
    show(101)
    await turn(4500)
    t.ok(polls() >= 1, 'silent for 4 block times')
    node.publishHead(rawBlock(102))
    await waitUntil(() => heads.status.head === 102)
    await turn(1000)
    t.equal(polls(), 0)
  })

  t.test('that break off are polled for at once, and the chain is asked for again when they are back', async t => {
    const { node, heads, log, polls, subscribe, turn, asked } = await follow(t)
    await subscribe()
    node.publishHead(rawBlock(101))
    await waitUntil(() => heads.status.head === 101)
    asked.splice(0)
    node.dropConnections()
    await waitUntil(() => log.lines.some(({ level }) => level === 'warn'))
    await turn(500)
    t.ok(polls() > 0)
    asked.splice(0)
    await turn(1000)
    await node.waitForRequests('eth_subscribe', 2)
    await waitUntil(() => asked.includes('eth_chainId'))
    t.match(log.lines, [
      { message: /subscription established$/ },
      { fields: { upstream: 'a', cause: 'connection closed' }, message: /polled/ },
    ])
  })

  t.test('end with the calls: 30 s after the last one nobody is connected, and the next one opens them again', async t => {
    const { node, heads, subscribe, turn } = await follow(t)
    await subscribe()
    await turn(31_000)
    await waitUntil(() => node.connectionCount === 0)
    heads.recordActivity()
    await node.waitForRequests('eth_subscribe', 2)
  })

  t.test('end when nobody follows the node any more', async t => {
    const { node, subscribe, stop } = await follow(t)
    await subscribe()
    stop()
    await waitUntil(() => node.connectionCount === 0)
  })
})

t.test('a real node', async t => {
  const chain = await startAnvilChain()
  const agents = openUpstreamClient(systemClock, createMemoryBudget(1 << 24))
  const asked: string[] = []
  const counted: UpstreamClient = {
    ...agents,
    request(target, request, terms) {
      asked.push(request.params[0] === 'latest' ? 'head' : request.method)
      return agents.request(target, request, terms)
    },
  }
  const log = new TestLog()
  const heads = new HeadTracker({
    chainId: 31337,
    blockTime: 12_000,
    upstreamClient: counted,
    clock: systemClock,
    log,
    metrics: createMetricsRegistry(),
  })
  const stop = heads.track([{ name: 'anvil', url: new Secret(chain.url), ws: new Secret(chain.url.replace('http', 'ws')), source: 'node' }])
  t.teardown(async () => {
    stop()
    await Promise.all([agents.close(), chain.stop()])
  })
  heads.recordActivity()
  await waitUntil(() => log.lines.some(({ message }) => message.includes('subscription established')))
  await waitUntil(() => heads.status.head !== undefined)

  t.test('tells of its heads, one block after the other, without being polled', async t => {
    const polls = () => asked.filter(each => each === 'head').length
    const before = polls()
    const begun = performance.now()
    for (let i = 1; i <= 5; i++) await chain.request('evm_mine')
    await waitUntil(() => heads.status.head === 5)
    t.ok(performance.now() - begun < 5000, 'sooner than a poll')
    t.equal(polls(), before)
    t.ok(heads.snapshot.isCurrent('anvil'))
  })

  t.test('tells of a reorganisation', async () => {
    const { headVersion: epoch } = heads.snapshot
    await chain.request('anvil_reorg', 2, [])
    await waitUntil(() => heads.snapshot.headVersion !== epoch && log.lines.some(({ message }) => message === 'chain reorg'))
  })

  t.test('that dies is noticed, as 1006 or otherwise', async t => {
    await chain.stop()
    await waitUntil(() => log.lines.some(({ level }) => level === 'warn'))
    t.notMatch(JSON.stringify(log.lines), /127\.0\.0\.1/)
  })
})
