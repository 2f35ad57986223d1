import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import type { UpstreamClient } from '../../../src/services/upstream-client/index.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import type { HeightBroadcast } from '../../../src/services/chain-heads/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { openRedisHeightBroadcasts } from '../../../src/store/redis/redis-height-broadcast.ts'
import type { HeightBroadcasts } from '../../../src/store/redis/redis-height-broadcast.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'
import { waitUntil } from '../../support/wait-until.ts'

const onlyBroadcast = ([broadcast]: readonly HeightBroadcast[]): HeightBroadcast => broadcast as HeightBroadcast

type Teardown = Pick<typeof t, 'teardown'>

/** A broadcast, and what the process at its other end receives and does. */
interface BroadcastEnds {
  readonly here: HeightBroadcast
  readonly receivedThere: readonly number[]
  raiseThere(height: number): void
}

const testBroadcastContract = (transport: string, skip: string | false, open: (t: Teardown) => Promise<BroadcastEnds>) =>
  t.test(`heights broadcast over ${transport}`, { skip }, async t => {
    t.test('reach other processes', async t => {
      const { here, receivedThere } = await open(t)
      await here.raise(100)
      await waitUntil(() => receivedThere.includes(100))
      await here.raise(101)
      await waitUntil(() => receivedThere.at(-1) === 101)
    })

    t.test('are received from other processes, in rising order', async t => {
      const { here, raiseThere } = await open(t)
      const received: number[] = []
      here.subscribe(height => {
        received.push(height)
      })
      for (let height = 100; height <= 120; height++) raiseThere(height)
      await waitUntil(() => received.at(-1) === 120)
      t.same(
        received,
        received.toSorted((a, b) => a - b),
      )
    })

    t.test('are received until the subscription ends', async t => {
      const { here, raiseThere } = await open(t)
      const received: number[] = []
      const receive = (height: number) => received.push(height)
      const unsubscribe = here.subscribe(receive)
      raiseThere(100)
      await waitUntil(() => received.includes(100))
      unsubscribe()
      const receivedLater: number[] = []
      here.subscribe(height => receivedLater.push(height))
      unsubscribe()
      raiseThere(101)
      await waitUntil(() => receivedLater.includes(101))
      t.notOk(received.includes(101))
    })

    t.test('may be skipped when they come fast, except for the last', async t => {
      const { here, receivedThere } = await open(t)
      for (let height = 1; height <= 500; height++) void here.raise(height)
      await waitUntil(() => receivedThere.at(-1) === 500)
    })
  })

const redis = skipWithoutRedis === false ? await startRedisServer('--requirepass', 'canary') : undefined
t.teardown(() => redis?.remove())
const address = redis && { ...redis.address, url: new Secret(`redis://:canary@127.0.0.1:${redis.port}`, `127.0.0.1:${redis.port}`) }
let networkCount = 0

const openBroadcasts = (t: Teardown, database = 0): HeightBroadcasts => {
  if (address === undefined) throw new Error('skipped')
  const url = new Secret(`${address.url.reveal()}/${database}`, String(address.url))
  const broadcasts = openRedisHeightBroadcasts({ ...address, url }, systemClock)
  t.teardown(() => broadcasts.close())
  return broadcasts
}

testBroadcastContract('Redis', skipWithoutRedis, async t => {
  const network = `contract-${(networkCount += 1)}`
  const [here, there] = [openBroadcasts(t), openBroadcasts(t)].map(broadcasts =>
    onlyBroadcast(broadcasts.heightBroadcastsOf(network, 1)),
  ) as [HeightBroadcast, HeightBroadcast]
  here.subscribe(height => height)
  const receivedThere: number[] = []
  there.subscribe(height => {
    receivedThere.push(height)
  })
  return { here, receivedThere, raiseThere: height => void there.raise(height) }
})

/** Redis delivers in order on each connection: when a height of another network has come, earlier messages have come too. */
const deliverPending = async (from: HeightBroadcasts, to: HeightBroadcasts): Promise<void> => {
  const network = `barrier-${(networkCount += 1)}`
  let received = 0
  onlyBroadcast(to.heightBroadcastsOf(network, 1)).subscribe(height => (received = height))
  const sender = onlyBroadcast(from.heightBroadcastsOf(network, 1))
  sender.subscribe(height => height)
  void sender.raise(1)
  await waitUntil(() => received === 1)
}

t.test('gateways on several machines', { skip: skipWithoutRedis }, async t => {
  /** A gateway with a node of its own at this height. Blocks have timestamps. */
  const openGateway = (t: Teardown, network: string, height: number, { chainId = 1, database = 0 } = {}) => {
    const clock = new TestClock()
    const node = { height }
    const upstreamClient: UpstreamClient = {
      disconnects: () => 0,
      async request(_target, { method, params }) {
        const number = params[0] === 'finalized' ? 1 : node.height
        const value: Json =
          method === 'eth_chainId'
            ? toHexQuantity(chainId)
            : {
                number: toHexQuantity(number),
                hash: toHexQuantity(number),
                parentHash: '0x0',
                timestamp: toHexQuantity(Math.floor(clock.now() / 1000)),
              }
        return fakeResult(value)
      },
    }
    const broadcasts = openBroadcasts(t, database)
    const log = new TestLog()
    const heads = new HeadTracker({
      chainId,
      blockTime: 1000,
      upstreamClient,
      errorCategory: () => undefined,
      clock,
      log,
      metrics: createMetricsRegistry(),
      heightBroadcasts: broadcasts.heightBroadcastsOf(network, chainId),
    })
    t.teardown(heads.track([{ name: 'a', url: new Secret('http://a.test'), source: 'node' }]))
    const advance = async (ms: number) => {
      for (let left = ms; left > 0; left -= 500) {
        heads.recordActivity()
        clock.advance(Math.min(500, left))
        await new Promise(setImmediate)
      }
    }
    return { heads, node, advance, log, broadcasts }
  }

  t.test('report no lower height than another has reported, and wait for nothing', async t => {
    const [a, b] = [openGateway(t, 'in-step', 100), openGateway(t, 'in-step', 98)]
    await Promise.all([a.advance(500), b.advance(500)])
    t.equal(a.heads.reportHeight('a', 101), 101, 'at once')
    const { headVersion } = b.heads.snapshot
    await waitUntil(() => b.heads.reportHeight('a', 98) === 101)
    t.not(b.heads.snapshot.headVersion, headVersion, 'cached responses of lower heights are dropped')
    t.match(b.heads.status, { head: 98 }, 'the head is that of its own upstreams')
    await b.advance(3000)
    t.equal(b.heads.reportHeight('a', 98), 101, 'though all of its own upstreams are lower')
  })

  t.test('have a tracker that a reload replaces or stops receive no more heights', async t => {
    const broadcasts = openBroadcasts(t)
    const [a, b] = [1, 2].map(() => onlyBroadcast(broadcasts.heightBroadcastsOf('replaced', 1))) as [HeightBroadcast, HeightBroadcast]
    const received: string[] = []
    const unsubscribeA = a.subscribe(height => received.push(`a ${height}`))
    b.subscribe(height => received.push(`b ${height}`))
    const peer = openBroadcasts(t)
    const [sender] = peer.heightBroadcastsOf('replaced', 1)
    sender?.subscribe(height => height)
    void sender?.raise(10)
    // Both receive heights while one replaces the other.
    await waitUntil(() => received.includes('a 10') && received.includes('b 10'))
    unsubscribeA()
    void sender?.raise(11)
    await waitUntil(() => received.includes('b 11'))
    await deliverPending(peer, broadcasts)
    t.notOk(received.includes('a 11'))
  })

  t.test('have the height of others when they start', async t => {
    const a = openGateway(t, 'late', 100)
    await a.advance(500)
    const broadcasts = openBroadcasts(t)
    let received = 0
    onlyBroadcast(broadcasts.heightBroadcastsOf('late', 1)).subscribe(height => (received = height))
    await waitUntil(() => received === 100)
  })

  t.test('do not share heights with another network, another chain ID, or another database', async t => {
    const a = openGateway(t, 'apart', 100)
    const [b, c] = [openGateway(t, 'apart-too', 10), openGateway(t, 'apart', 10, { chainId: 2 })]
    const d = openGateway(t, 'apart', 99, { database: 1 })
    const same = openGateway(t, 'apart', 99)
    await Promise.all([a, b, c, d, same].map(each => each.advance(500)))
    await waitUntil(() => same.heads.reportHeight('a', 99) === 100)
    const sameAsD = openBroadcasts(t, 1)
    await deliverPending(sameAsD, d.broadcasts)
    t.equal(a.heads.reportHeight('a', 101), 101)
    await waitUntil(() => same.heads.reportHeight('a', 99) === 101)
    await deliverPending(sameAsD, d.broadcasts)
    t.same([b.heads.reportHeight('a', 10), c.heads.reportHeight('a', 10), d.heads.reportHeight('a', 99)], [10, 10, 99])
  })

  t.test('ignore an implausible height of another', async t => {
    const [a, b] = [openGateway(t, 'implausible', 1_000_000), openGateway(t, 'implausible', 100)]
    await b.advance(500)
    await a.advance(500)
    t.equal(a.heads.reportHeight('a', 1_000_000), 1_000_000)
    await deliverPending(a.broadcasts, b.broadcasts)
    t.equal(b.heads.reportHeight('a', 100), 100)
  })

  t.test('go back together when the chain began anew', async t => {
    const [a, b] = [openGateway(t, 'reset', 100), openGateway(t, 'reset', 100)]
    await Promise.all([a.advance(500), b.advance(500)])
    t.equal(a.heads.reportHeight('a', 102), 102)
    await waitUntil(() => b.heads.reportHeight('a', 100) === 102)
    a.node.height = b.node.height = 5
    await Promise.all([a.advance(500), b.advance(500)])
    t.same([a.heads.reportHeight('a', 5), b.heads.reportHeight('a', 5)], [5, 5])
  })

  t.test('go on alone while Redis is unreachable or hangs, and share heights again when it is back', async t => {
    const [a, b] = [openGateway(t, 'outage', 100), openGateway(t, 'outage', 99)]
    await Promise.all([a.advance(500), b.advance(500)])
    await waitUntil(() => b.heads.reportHeight('a', 99) === 100)
    for (const [inject, recover] of [
      [async () => redis?.pause(), async () => redis?.resume()],
      [async () => redis?.kill(), async () => redis?.restart()],
    ] as const) {
      await inject()
      const before = Number(a.heads.reportHeight('a', 0))
      const heights = Array.from({ length: 1000 }, (_, i) => before + i)
      t.same(
        heights.map(height => a.heads.reportHeight('a', height)),
        heights,
      )
      a.node.height = before + 999
      t.ok(Number(b.heads.reportHeight('a', 99)) <= before)
      await recover()
      b.node.height = before + 990
      await b.advance(500)
      await waitUntil(() => b.heads.reportHeight('a', before + 990) === before + 999)
    }
    t.notMatch(JSON.stringify([a.log.lines, b.log.lines]), /canary/)
  })
})
