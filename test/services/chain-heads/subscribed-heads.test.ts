import t from '../../support/tap.ts'
import type { Target } from '../../../src/plugin/call.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { MemoryBudget } from '../../../src/services/memory-budget.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { openUpstreamClient } from '../../../src/services/upstream-client/index.ts'
import type { UpstreamClient } from '../../../src/services/upstream-client/index.ts'
import { startAnvilChain } from '../../support/anvil-chain.ts'
import { deferred } from '../../support/deferred.ts'
import { blockJson, startFakeSubscriptionNode } from '../../support/fake-subscription-node.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
import { waitUntil } from '../../support/wait-until.ts'

type Teardown = Pick<typeof t, 'teardown'>

const maxResponseBytes = 16_777_216

t.test('heads by subscription', async t => {
  /** Heads of one node, whose HTTP side is `upstreamClient`. The block time is 1 s, the poll interval 500 ms. */
  const openSubscribed = async (t: Teardown, { isChainIdLate = false } = {}) => {
    const node = await startFakeSubscriptionNode(1)
    const clock = new TestClock()
    const log = new TestLog()
    const requests: string[] = []
    const { promise: chainIdReturned, resolve: returnChainId } = deferred()
    if (!isChainIdLate) returnChainId()
    let polledHead = 100
    let pollsReturned: Promise<void> | undefined
    const upstreamClient: UpstreamClient = {
      disconnects: () => 0,
      async request(_target, { method, params }) {
        requests.push(params[0] === 'latest' ? 'head' : method)
        if (method === 'eth_chainId') await chainIdReturned
        const result = method === 'eth_chainId' ? '0x1' : params[0] === 'finalized' ? null : blockJson(polledHead)
        if (params[0] === 'latest') await pollsReturned
        return fakeResult(result)
      },
    }
    const heads = new HeadTracker({
      chainId: 1,
      blockTime: 1000,
      upstreamClient,
      errorCategory: () => undefined,
      clock,
      log,
      metrics: createMetricsRegistry(),
    })
    const headers = { 'X-Api-Key': new Secret('key 1') }
    const target: Target = { name: 'a', url: new Secret('http://a.test'), ws: new Secret(node.url), headers, source: 'node' }
    const stop = heads.track([target])
    t.teardown(async () => {
      stop()
      await node.stop()
    })
    const advance = async (ms: number) => {
      for (let left = ms; left > 0; left -= 500) {
        clock.advance(Math.min(500, left))
        await new Promise(setImmediate)
      }
    }
    const takePollCount = () => requests.splice(0).filter(each => each === 'head').length
    const isSubscribed = () => heads.status.upstreams[0]?.subscribed === true
    const subscribe = async () => {
      heads.recordActivity()
      await node.waitForRequests('eth_subscribe', 1)
      await waitUntil(() => {
        clock.advance(500)
        return isSubscribed()
      })
      takePollCount()
    }
    return {
      node,
      heads,
      clock,
      log,
      advance,
      takePollCount,
      subscribe,
      isSubscribed,
      returnChainId: () => returnChainId(),
      requests,
      stop,
      /** The node responds to polls when the function that this returns is called. */
      holdPolls: () => {
        let release = () => {}
        pollsReturned = new Promise(resolve => {
          release = resolve
        })
        return release
      },
      setPolledHead: (number: number) => {
        polledHead = number
      },
    }
  }

  t.test('need no polls, and count like polled heads', async t => {
    const { node, heads, takePollCount, subscribe, advance } = await openSubscribed(t)
    await subscribe()
    t.match(node.upgradeHeaders, [{ 'x-api-key': 'key 1' }], 'the headers of the upstream are sent with the upgrade')
    const { headVersion } = heads.snapshot
    node.publish(blockJson(101))
    await waitUntil(() => heads.status.head === 101)
    await advance(3000)
    t.equal(takePollCount(), 0)
    t.not(heads.snapshot.headVersion, headVersion)
    t.ok(heads.snapshot.isCurrent('a'))
    t.equal(heads.reportHeight('a', 100), 101)
  })

  t.test('from before the subscription are polled, however late the node returns its chain ID', async t => {
    const { node, heads, log, isSubscribed, returnChainId } = await openSubscribed(t, { isChainIdLate: true })
    heads.recordActivity()
    await node.waitForRequests('eth_subscribe', 1)
    await waitUntil(() => log.lines.some(({ message }) => message.includes('subscription established')))
    t.equal(heads.status.head, undefined)
    returnChainId()
    await waitUntil(() => heads.status.head === 100)
    t.ok(isSubscribed())
  })

  t.test('do not go back with the response to a poll that was sent before they came', async t => {
    const { node, heads, log, requests, holdPolls } = await openSubscribed(t)
    const returnPoll = holdPolls()
    heads.recordActivity()
    await waitUntil(() => requests.includes('head') && log.lines.some(({ message }) => message.includes('subscription established')))
    node.publish(blockJson(101))
    await waitUntil(() => heads.status.head === 101)
    returnPoll()
    await new Promise(setImmediate)
    t.equal(heads.status.head, 101)
    t.ok(heads.snapshot.isCurrent('a'))
    node.publish(blockJson(99))
    await waitUntil(() => heads.status.head !== 101)
    t.equal(heads.status.head, 99, 'a head of the subscription may be lower')
  })

  t.test('of a new branch, block by block, do not lower the reported height, nor does a chain that stays shorter', async t => {
    const { node, heads, subscribe } = await openSubscribed(t)
    await subscribe()
    node.publish(blockJson(105))
    await waitUntil(() => heads.status.head === 105)
    for (const number of [100, 101, 102, 103, 104]) {
      node.publish(blockJson(number))
      await waitUntil(() => heads.status.head === number)
      t.equal(heads.reportHeight('a', number), 105)
    }
  })

  t.test('are polled while the subscription is stale', async t => {
    const { node, heads, takePollCount, subscribe, advance, setPolledHead } = await openSubscribed(t)
    await subscribe()
    node.publish(blockJson(101))
    await waitUntil(() => heads.status.head === 101)
    setPolledHead(101)
    await advance(4500)
    t.ok(takePollCount() >= 1, 'stale after 4 block times')
    node.publish(blockJson(102))
    await waitUntil(() => heads.status.head === 102)
    await advance(1000)
    t.equal(takePollCount(), 0)
  })

  t.test('are polled at once after a lost connection, and the chain ID is checked after the resubscription', async t => {
    const { node, heads, log, takePollCount, subscribe, advance, requests } = await openSubscribed(t)
    await subscribe()
    node.publish(blockJson(101))
    await waitUntil(() => heads.status.head === 101)
    requests.splice(0)
    node.dropConnections()
    await waitUntil(() => log.lines.some(({ level }) => level === 'warn'))
    await advance(500)
    t.ok(takePollCount() > 0)
    requests.splice(0)
    await advance(1000)
    await node.waitForRequests('eth_subscribe', 2)
    await waitUntil(() => requests.includes('eth_chainId'))
    t.match(log.lines, [
      { message: /subscription established$/ },
      { fields: { upstream: 'a', cause: 'connection closed' }, message: /polled/ },
    ])
  })

  t.test('end 30 s after the last call; the next call opens the subscription again', async t => {
    const { node, heads, subscribe, advance } = await openSubscribed(t)
    await subscribe()
    await advance(31_000)
    await waitUntil(() => node.connectionCount === 0)
    heads.recordActivity()
    await node.waitForRequests('eth_subscribe', 2)
  })

  t.test('end when the upstream is not tracked any more', async t => {
    const { node, subscribe, stop } = await openSubscribed(t)
    await subscribe()
    stop()
    await waitUntil(() => node.connectionCount === 0)
  })
})

t.test('a subscription to anvil', async t => {
  const chain = await startAnvilChain()
  const upstreamClient = openUpstreamClient(systemClock, new MemoryBudget(maxResponseBytes))
  const requests: string[] = []
  const countingClient: UpstreamClient = {
    ...upstreamClient,
    request(target, request, options) {
      requests.push(request.params[0] === 'latest' ? 'head' : request.method)
      return upstreamClient.request(target, request, options)
    },
  }
  const log = new TestLog()
  const heads = new HeadTracker({
    chainId: 31337,
    blockTime: 12_000,
    upstreamClient: countingClient,
    errorCategory: () => undefined,
    clock: systemClock,
    log,
    metrics: createMetricsRegistry(),
  })
  const stop = heads.track([{ name: 'anvil', url: new Secret(chain.url), ws: new Secret(chain.url.replace('http', 'ws')), source: 'node' }])
  t.teardown(async () => {
    stop()
    await Promise.all([upstreamClient.close(), chain.stop()])
  })
  heads.recordActivity()
  await waitUntil(() => heads.status.upstreams[0]?.subscribed === true)

  t.test('reports each head, without polls', async t => {
    const pollCount = () => requests.filter(each => each === 'head').length
    const before = pollCount()
    const startedAt = performance.now()
    for (let i = 1; i <= 5; i++) await chain.request('evm_mine')
    await waitUntil(() => heads.status.head === 5)
    t.ok(performance.now() - startedAt < 5000, 'sooner than a poll')
    t.equal(pollCount(), before)
    t.ok(heads.snapshot.isCurrent('anvil'))
  })

  t.test('reports a reorg', async () => {
    const { headVersion } = heads.snapshot
    await chain.request('anvil_reorg', 2, [])
    await waitUntil(() => heads.snapshot.headVersion !== headVersion && log.lines.some(({ message }) => message === 'chain reorg'))
  })

  t.test('reports a lost connection', async t => {
    await chain.stop()
    await waitUntil(() => log.lines.some(({ level }) => level === 'warn'))
    t.notMatch(JSON.stringify(log.lines), /127\.0\.0\.1/)
  })
})
