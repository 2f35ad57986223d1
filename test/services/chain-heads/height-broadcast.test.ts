import t from 'tap'
import type { Json } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import type { UpstreamClient } from '../../../src/services/upstream-client/index.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { HeadTracker } from '../../../src/services/chain-heads/index.ts'
import type { HeightBroadcast } from '../../../src/services/chain-heads/index.ts'
import { createMetricsRegistry } from '../../../src/services/metrics.ts'
import { openRedisHeightBroadcasts } from '../../../src/store/redis/redis-height-broadcast.ts'
import type { HeightBroadcasts } from '../../../src/store/redis/redis-height-broadcast.ts'
import { WorkerHeightBroadcast } from '../../../src/cluster/height-broadcast.ts'
import { TestClock, TestLog, fakeResult } from '../../support/fakes.ts'
import { skipWithoutRedis, startRedisServer } from '../../support/redis-server.ts'

/** Fails after 10 s. */
const waitUntil = async (isThere: () => boolean) => {
  for (let left = 5000; !isThere(); left--) {
    if (left === 0) throw new Error(`never: ${isThere}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}
const onlyBroadcast = ([news]: readonly HeightBroadcast[]): HeightBroadcast => news as HeightBroadcast

/** A carrier here, and what somebody at its other end does and hears. */
interface BroadcastEnds {
  readonly here: HeightBroadcast
  readonly receivedThere: readonly number[]
  raiseThere(height: number): void
}

const testBroadcastContract = (
  transport: string,
  skip: string | false,
  open: (t: { teardown(run: () => unknown): void }) => Promise<BroadcastEnds>,
) =>
  t.test(`heights carried by ${transport}`, { skip }, async t => {
    t.test('reach others', async t => {
      const { here, receivedThere: heardThere } = await open(t)
      await here.raise(100)
      await waitUntil(() => heardThere.includes(100))
      await here.raise(101)
      await waitUntil(() => heardThere.at(-1) === 101)
    })

    t.test('are heard from others, and never less than before', async t => {
      const { here, raiseThere } = await open(t)
      const heard: number[] = []
      here.subscribe(height => {
        heard.push(height)
        return height
      })
      for (let height = 100; height <= 120; height++) raiseThere(height)
      await waitUntil(() => heard.at(-1) === 120)
      t.same(
        heard,
        heard.toSorted((a, b) => a - b),
      )
    })

    t.test('go out one by one when they come fast, the last of them for certain', async t => {
      const { here, receivedThere: heardThere } = await open(t)
      for (let height = 1; height <= 500; height++) void here.raise(height)
      await waitUntil(() => heardThere.at(-1) === 500)
    })
  })

testBroadcastContract('the pipes of workers', false, async () => {
  const heardThere: number[] = []
  const here = new WorkerHeightBroadcast('model', systemClock)
  const member = {
    send(message: Parameters<Parameters<WorkerHeightBroadcast['addWorker']>[0]['send']>[0]) {
      if (message.kind !== 'height') return
      heardThere.push(message.height)
      setImmediate(() => here.handleMessage(member, { kind: 'heightAck', network: 'model', height: message.height }))
    },
  }
  here.addWorker(member)
  const raiseThere = (height: number) =>
    here.handleMessage(member, { kind: 'reportHeight', id: height, network: 'model', upstream: 'a', height })
  return { here, receivedThere: heardThere, raiseThere }
})

const redis = skipWithoutRedis === false ? await startRedisServer('--requirepass', 'canary') : undefined
t.teardown(() => redis?.remove())
const address = redis && { ...redis.address, url: new Secret(`redis://:canary@127.0.0.1:${redis.port}`, `127.0.0.1:${redis.port}`) }
let networkCount = 0

const openBroadcasts = (t: { teardown(run: () => unknown): void }): HeightBroadcasts => {
  if (address === undefined) throw new Error('skipped')
  const heights = openRedisHeightBroadcasts(address, systemClock)
  t.teardown(() => heights.close())
  return heights
}

testBroadcastContract('Redis', skipWithoutRedis, async t => {
  const network = `contract-${(networkCount += 1)}`
  const [here, there] = [openBroadcasts(t), openBroadcasts(t)].map(line => onlyBroadcast(line.heightBroadcastsOf(network, 1))) as [
    HeightBroadcast,
    HeightBroadcast,
  ]
  const heardThere: number[] = []
  there.subscribe(height => {
    heardThere.push(height)
    return height
  })
  return { here, receivedThere: heardThere, raiseThere: height => void there.raise(height) }
})

t.test('gateways on several machines', { skip: skipWithoutRedis }, async t => {
  /** A gateway with nodes of its own, which stand at the height that is given; blocks tell their time. */
  const gateway = (t: { teardown(run: () => unknown): void }, network: string, height: number, chainId = 1) => {
    const clock = new TestClock()
    const node = { height, isAway: false }
    const agents: UpstreamClient = {
      disconnects: () => 0,
      async request({ name }, { method, params }) {
        if (node.isAway) return refuse('unavailable', { upstream: name })
        const number = params[0] === 'finalized' ? 1 : node.height
        const value: Json =
          method === 'eth_chainId'
            ? `0x${chainId}`
            : { number: hex(number), hash: hex(number), parentHash: '0x0', timestamp: hex(Math.floor(clock.now() / 1000)) }
        return fakeResult(value)
      },
    }
    const news = openBroadcasts(t).heightBroadcastsOf(network, chainId)
    const log = new TestLog()
    const heads = new HeadTracker({
      chainId,
      blockTime: 1000,
      upstreamClient: agents,
      clock,
      log,
      metrics: createMetricsRegistry(),
      heightBroadcasts: news,
    })
    t.teardown(heads.track([{ name: 'a', url: new Secret('http://a.test'), source: 'node' }]))
    const turn = async (ms: number) => {
      for (let left = ms; left > 0; left -= 500) {
        heads.recordActivity()
        clock.advance(Math.min(500, left))
        await new Promise(setImmediate)
      }
    }
    return { heads, node, turn, log }
  }
  const hex = (value: number): string => `0x${value.toString(16)}`

  t.test('tell their callers no less than another has told, and wait for nothing', async t => {
    const [a, b] = [gateway(t, 'in-step', 100), gateway(t, 'in-step', 98)]
    await Promise.all([a.turn(500), b.turn(500)])
    t.equal(a.heads.reportHeight('a', 101), 101, 'known at once')
    const { headVersion: epoch } = b.heads.snapshot
    await waitUntil(() => b.heads.reportHeight('a', 98) === 101)
    t.not(b.heads.snapshot.headVersion, epoch, 'what was kept of lower heights goes')
    t.match(b.heads.status, { head: 98 }, 'the head is that of own nodes')
    await b.turn(3000)
    t.equal(b.heads.reportHeight('a', 98), 101, 'though its own nodes all are lower')
  })

  t.test('know when they start what others have told', async t => {
    const a = gateway(t, 'late', 100)
    await a.turn(500)
    const line = openBroadcasts(t)
    let heard = 0
    onlyBroadcast(line.heightBroadcastsOf('late', 1)).subscribe(height => (heard = height))
    await waitUntil(() => heard === 100)
  })

  t.test('of another network or another chain have nothing to do with it', async t => {
    const a = gateway(t, 'apart', 100)
    const [b, c] = [gateway(t, 'apart-too', 10), gateway(t, 'apart', 10, 2)]
    const same = gateway(t, 'apart', 99)
    await Promise.all([a, b, c, same].map(each => each.turn(500)))
    await waitUntil(() => same.heads.reportHeight('a', 99) === 100)
    t.same([b.heads.reportHeight('a', 10), c.heads.reportHeight('a', 10)], [10, 10])
  })

  t.test('do not believe one that tells what cannot be', async t => {
    const [a, b] = [gateway(t, 'liar', 1_000_000), gateway(t, 'liar', 100)]
    await b.turn(500)
    await a.turn(500)
    t.equal(a.heads.reportHeight('a', 1_000_000), 1_000_000)
    await new Promise(resolve => setTimeout(resolve, 50))
    t.equal(b.heads.reportHeight('a', 100), 100)
  })

  t.test('go back together when the chain was reset', async t => {
    const [a, b] = [gateway(t, 'reset', 100), gateway(t, 'reset', 100)]
    await Promise.all([a.turn(500), b.turn(500)])
    t.equal(a.heads.reportHeight('a', 102), 102)
    await waitUntil(() => b.heads.reportHeight('a', 100) === 102)
    a.node.height = b.node.height = 90
    await Promise.all([a.turn(3500), b.turn(3500)])
    t.equal(a.heads.reportHeight('a', 90), 90, 'nobody has told it more')
    t.equal(b.heads.reportHeight('a', 90), 102, 'it was told more just now: perhaps only its own nodes are behind')
    await b.turn(12_000)
    t.equal(b.heads.reportHeight('a', 90), 90)
  })

  t.test('go on as if they were alone while Redis is away or hangs, and are in step when it is back', async t => {
    const [a, b] = [gateway(t, 'away', 100), gateway(t, 'away', 99)]
    await Promise.all([a.turn(500), b.turn(500)])
    await waitUntil(() => b.heads.reportHeight('a', 99) === 100)
    for (const [spoil, mend] of [
      [async () => redis?.pause(), async () => redis?.resume()],
      [async () => redis?.kill(), async () => redis?.restart()],
    ] as const) {
      await spoil()
      const before = Number(a.heads.reportHeight('a', 0))
      const heights = Array.from({ length: 1000 }, (_, i) => before + i)
      t.same(
        heights.map(height => a.heads.reportHeight('a', height)),
        heights,
      )
      a.node.height = before + 999
      t.ok(Number(b.heads.reportHeight('a', 99)) <= before)
      await mend()
      b.node.height = before + 990
      await b.turn(500)
      await waitUntil(() => b.heads.reportHeight('a', before + 990) === before + 999)
    }
    t.notMatch(JSON.stringify([a.log.lines, b.log.lines]), /canary/)
  })
})
