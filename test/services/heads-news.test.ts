import t from 'tap'
import type { Json } from '../../src/call.ts'
import { refuse } from '../../src/reply.ts'
import { Secret } from '../../src/secret.ts'
import type { Agents } from '../../src/services/agents/index.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openHeads } from '../../src/services/heads/index.ts'
import type { HeadNews } from '../../src/services/heads/index.ts'
import { openMetrics } from '../../src/services/metrics.ts'
import { openHeights } from '../../src/store/redis/heights.ts'
import type { Heights } from '../../src/store/redis/heights.ts'
import { CrewNews } from '../../src/workers/crew-news.ts'
import { TestClock, TestLog, result } from '../support/fakes.ts'
import { noRedis, startRedis } from '../support/redis.ts'

/** Fails after 10 s. */
const until = async (isThere: () => boolean) => {
  for (let left = 5000; !isThere(); left--) {
    if (left === 0) throw new Error(`never: ${isThere}`)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}
const one = ([news]: readonly HeadNews[]): HeadNews => news as HeadNews

/** A carrier here, and what somebody at its other end does and hears. */
interface Ends {
  readonly here: HeadNews
  readonly heardThere: readonly number[]
  raiseThere(height: number): void
}

const contract = (carrier: string, skip: string | false, open: (t: { teardown(run: () => unknown): void }) => Promise<Ends>) =>
  t.test(`heights carried by ${carrier}`, { skip }, async t => {
    t.test('reach others', async t => {
      const { here, heardThere } = await open(t)
      await here.raise(100)
      await until(() => heardThere.includes(100))
      await here.raise(101)
      await until(() => heardThere.at(-1) === 101)
    })

    t.test('are heard from others, and never less than before', async t => {
      const { here, raiseThere } = await open(t)
      const heard: number[] = []
      here.listen(height => {
        heard.push(height)
        return height
      })
      for (let height = 100; height <= 120; height++) raiseThere(height)
      await until(() => heard.at(-1) === 120)
      t.same(
        heard,
        heard.toSorted((a, b) => a - b),
      )
    })

    t.test('go out one by one when they come fast, the last of them for certain', async t => {
      const { here, heardThere } = await open(t)
      for (let height = 1; height <= 500; height++) void here.raise(height)
      await until(() => heardThere.at(-1) === 500)
    })
  })

contract('the pipes of workers', false, async () => {
  const heardThere: number[] = []
  const here = new CrewNews('model', systemClock)
  const member = {
    say(message: Parameters<Parameters<CrewNews['join']>[0]['say']>[0]) {
      if (message.kind !== 'height') return
      heardThere.push(message.height)
      setImmediate(() => here.hear(member, { kind: 'seen', network: 'model', height: message.height }))
    },
  }
  here.join(member)
  const raiseThere = (height: number) => here.hear(member, { kind: 'tell', id: height, network: 'model', upstream: 'a', height })
  return { here, heardThere, raiseThere }
})

const redis = noRedis === false ? await startRedis('--requirepass', 'canary') : undefined
t.teardown(() => redis?.remove())
const address = redis && { ...redis.address, url: new Secret(`redis://:canary@127.0.0.1:${redis.port}`, `127.0.0.1:${redis.port}`) }
let networks = 0

const openLine = (t: { teardown(run: () => unknown): void }): Heights => {
  if (address === undefined) throw new Error('skipped')
  const heights = openHeights(address, systemClock)
  t.teardown(() => heights.close())
  return heights
}

contract('Redis', noRedis, async t => {
  const network = `contract-${(networks += 1)}`
  const [here, there] = [openLine(t), openLine(t)].map(line => one(line.newsOf(network, 1))) as [HeadNews, HeadNews]
  const heardThere: number[] = []
  there.listen(height => {
    heardThere.push(height)
    return height
  })
  return { here, heardThere, raiseThere: height => void there.raise(height) }
})

t.test('gateways on several machines', { skip: noRedis }, async t => {
  /** A gateway with nodes of its own, which stand at the height that is given; blocks tell their time. */
  const gateway = (t: { teardown(run: () => unknown): void }, network: string, height: number, chainId = 1) => {
    const clock = new TestClock()
    const node = { height, isAway: false }
    const agents: Agents = {
      losses: () => 0,
      async ask({ name }, { method, params }) {
        if (node.isAway) return refuse('unavailable', { upstream: name })
        const number = params[0] === 'finalized' ? 1 : node.height
        const value: Json =
          method === 'eth_chainId'
            ? `0x${chainId}`
            : { number: hex(number), hash: hex(number), parentHash: '0x0', timestamp: hex(Math.floor(clock.now() / 1000)) }
        return result(value)
      },
    }
    const news = openLine(t).newsOf(network, chainId)
    const log = new TestLog()
    const heads = openHeads({ chainId, blockTime: 1000, agents, clock, log, metrics: openMetrics(), news })
    t.teardown(heads.follow([{ name: 'a', url: new Secret('http://a.test'), source: 'node' }]))
    const turn = async (ms: number) => {
      for (let left = ms; left > 0; left -= 500) {
        heads.touch()
        clock.turn(Math.min(500, left))
        await new Promise(setImmediate)
      }
    }
    return { heads, node, turn, log }
  }
  const hex = (value: number): string => `0x${value.toString(16)}`

  t.test('tell their callers no less than another has told, and wait for nothing', async t => {
    const [a, b] = [gateway(t, 'in-step', 100), gateway(t, 'in-step', 98)]
    await Promise.all([a.turn(500), b.turn(500)])
    t.equal(a.heads.tell('a', 101), 101, 'known at once')
    const { epoch } = b.heads.view
    await until(() => b.heads.tell('a', 98) === 101)
    t.not(b.heads.view.epoch, epoch, 'what was kept of lower heights goes')
    t.match(b.heads.status, { head: 98 }, 'the head is that of own nodes')
    await b.turn(3000)
    t.equal(b.heads.tell('a', 98), 101, 'though its own nodes all are lower')
  })

  t.test('know when they start what others have told', async t => {
    const a = gateway(t, 'late', 100)
    await a.turn(500)
    const line = openLine(t)
    let heard = 0
    one(line.newsOf('late', 1)).listen(height => (heard = height))
    await until(() => heard === 100)
  })

  t.test('of another network or another chain have nothing to do with it', async t => {
    const a = gateway(t, 'apart', 100)
    const [b, c] = [gateway(t, 'apart-too', 10), gateway(t, 'apart', 10, 2)]
    const same = gateway(t, 'apart', 99)
    await Promise.all([a, b, c, same].map(each => each.turn(500)))
    await until(() => same.heads.tell('a', 99) === 100)
    t.same([b.heads.tell('a', 10), c.heads.tell('a', 10)], [10, 10])
  })

  t.test('do not believe one that tells what cannot be', async t => {
    const [a, b] = [gateway(t, 'liar', 1_000_000), gateway(t, 'liar', 100)]
    await b.turn(500)
    await a.turn(500)
    t.equal(a.heads.tell('a', 1_000_000), 1_000_000)
    await new Promise(resolve => setTimeout(resolve, 50))
    t.equal(b.heads.tell('a', 100), 100)
  })

  t.test('go back together when the chain was reset', async t => {
    const [a, b] = [gateway(t, 'reset', 100), gateway(t, 'reset', 100)]
    await Promise.all([a.turn(500), b.turn(500)])
    t.equal(a.heads.tell('a', 102), 102)
    await until(() => b.heads.tell('a', 100) === 102)
    a.node.height = b.node.height = 90
    await Promise.all([a.turn(3500), b.turn(3500)])
    t.equal(a.heads.tell('a', 90), 90, 'nobody has told it more')
    t.equal(b.heads.tell('a', 90), 102, 'it was told more just now: perhaps only its own nodes are behind')
    await b.turn(12_000)
    t.equal(b.heads.tell('a', 90), 90)
  })

  t.test('go on as if they were alone while Redis is away or hangs, and are in step when it is back', async t => {
    const [a, b] = [gateway(t, 'away', 100), gateway(t, 'away', 99)]
    await Promise.all([a.turn(500), b.turn(500)])
    await until(() => b.heads.tell('a', 99) === 100)
    for (const [spoil, mend] of [
      [async () => redis?.hang(), async () => redis?.goOn()],
      [async () => redis?.kill(), async () => redis?.restart()],
    ] as const) {
      await spoil()
      const before = Number(a.heads.tell('a', 0))
      const heights = Array.from({ length: 1000 }, (_, i) => before + i)
      t.same(
        heights.map(height => a.heads.tell('a', height)),
        heights,
      )
      a.node.height = before + 999
      t.ok(Number(b.heads.tell('a', 99)) <= before)
      await mend()
      b.node.height = before + 990
      await b.turn(500)
      await until(() => b.heads.tell('a', before + 990) === before + 999)
    }
    t.notMatch(JSON.stringify([a.log.lines, b.log.lines]), /canary/)
  })
})
