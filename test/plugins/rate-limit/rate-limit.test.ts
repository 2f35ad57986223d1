import t from '../../support/tap.ts'
import rateLimit from '../../../plugins/rate-limit.ts'
import { SharedRateLimits, openWorkerRateLimits } from '../../../src/cluster/shared-rate-limits.ts'
import type { CountedCall, MethodTable } from '../../../src/services/index.ts'
import { TokenBuckets } from '../../../src/services/rate-limits.ts'
import type { RateLimits } from '../../../src/services/rate-limits.ts'
import { createUsage } from '../../../src/services/usage/index.ts'
import { isFailure } from '../../../src/plugin/reply.ts'
import { TestClock, createStage, fakeAccount, fakeCall, fakeKey, fakeOrigin, fakeResult } from '../../support/fakes.ts'
import { connectWorker } from '../../support/worker-channel.ts'

const methods = {
  get: (name: string) => (name === 'eth_getLogs' ? { name, cost: 255 } : undefined),
  defaultCost: 80,
} as unknown as MethodTable // what the plugin reads of it

const open = (options: object, over: { readonly clock?: TestClock; readonly rateLimits?: RateLimits } = {}) => {
  const clock = over.clock ?? new TestClock()
  const counted: CountedCall[] = []
  const stage = createStage(rateLimit, options, {
    clock,
    methods,
    rateLimits: over.rateLimits ?? new TokenBuckets(clock),
    usage: createUsage(call => void counted.push(call), clock),
  })
  const request = (context: object = {}, method = 'eth_chainId', ip = '127.0.0.1') =>
    stage.handle({ ...fakeCall(method, [], context), origin: fakeOrigin({ ip }) }, async () => fakeResult('ok'))
  const passedOf = async (count: number, ...args: Parameters<typeof request>) => {
    let passed = 0
    for (let i = 0; i < count; i++) if (!isFailure(await request(...args))) passed += 1
    return passed
  }
  return { clock, counted, request, passedOf }
}

const withPlan = (limits: object) => ({ account: { ...fakeAccount, plan: { ...fakeAccount.plan, ...limits } } })

t.test('calls come as fast as the rate, and as many at once as the burst', async t => {
  const { clock, passedOf: passedOfPlan, request, counted } = open({})
  const plan = withPlan({ rate: 10, burst: 20 })
  const passedOf = (count: number) => passedOfPlan(count, plan)
  t.equal(await passedOf(30), 20)
  clock.advance(500)
  t.equal(await passedOf(30), 5)
  clock.advance(60_000)
  t.equal(await passedOf(100), 20, 'a full bucket holds no more than the burst')
  const refusal = await request(plan)
  t.match(refusal, {
    kind: 'rate',
    status: 429,
    error: { code: -32005, message: 'too many calls per second', data: { limit: 'account', perSecond: 10, burst: 20 } },
    retryAfter: 1,
    rateQuota: { name: 'calls', limit: 20, windowMs: 2000, remaining: 0, resetsInMs: 2000 },
  })
  t.equal(counted.length, 10 + 25 + 80 + 1)
  t.match(counted.at(-1), { outcome: 'rate', calls: 1, credits: 0, method: 'other' })
  let passed = 0
  for (let i = 0; i < 1000; i++) {
    clock.advance(10)
    passed += await passedOf(3)
  }
  t.equal(passed, 100, 'over 10 s exactly the rate')
})

t.test('the burst is what the rate allows in a second unless it is given, and Retry-After is 1 to 5', async t => {
  const { passedOf, request } = open({ account: { rate: 1 / 60 } })
  t.equal(await passedOf(2), 1)
  t.match(await request(), { retryAfter: 5 })
  t.equal(await open({ account: { rate: 7 } }).passedOf(20), 7)
  for (const limit of [{ rate: 100 / 60 }, { creditRate: 100 / 60 }]) {
    t.match(await open({ account: limit }).request(), { rateQuota: { limit: 2 } }, 'whole: RateLimit-Policy takes integers')
  }
})

t.test('credits per second: a call takes what it costs, and one above the burst passes a full bucket alone', async t => {
  const { passedOf, request, clock } = open({ account: { creditRate: 160 } })
  t.equal(await passedOf(5), 2)
  t.match(await request(), { error: { message: 'too many credits per second' }, rateQuota: { name: 'credits', limit: 160 } })
  clock.advance(1000)
  t.equal(await passedOf(2, {}, 'eth_getLogs'), 1)
  clock.advance(1000)
  t.equal(await passedOf(1), 0, 'in debt')
  clock.advance(1000)
  t.equal(await passedOf(5), 2)
})

t.test('the plan comes before the option; keys and addresses have buckets of their own', async t => {
  const { passedOf } = open({ account: { rate: 5 }, key: { rate: 3 }, ip: { rate: 8 } })
  t.equal(await passedOf(10, withPlan({ rate: 100 })), 3, 'of the key')
  const key = (id: string) => ({ ...withPlan({ rate: 100 }), key: { ...fakeKey, id } })
  t.equal(await passedOf(10, key('k2')), 3)
  t.equal(await passedOf(10, key('k3')), 2, 'of the address: 8 in all')
  t.equal(await passedOf(10, key('k3'), 'eth_chainId', '10.0.0.1'), 1, 'what a refused call would have taken of the key is there')
  const ipv6 = open({ ip: { rate: 5 } })
  let passed = 0
  for (let i = 0; i < 10; i++) passed += await ipv6.passedOf(1, {}, 'eth_chainId', `2001:db8::${i}`)
  t.equal(passed, 5, 'whoever has one address of IPv6 has its /64')
  const other = open({ account: { rate: 5 } })
  t.equal(await other.passedOf(10), 5)
  t.equal(await other.passedOf(10, { account: { ...fakeAccount, id: 'acc_2' } }), 5)
  t.equal(await open({}).passedOf(10), 10, 'without limits each call passes')
})

t.test('a rate of the key itself holds where the limit of all keys is not stricter', async t => {
  const key = (rate: number, burst?: number) => ({ key: { ...fakeKey, rate, ...(burst !== undefined && { burst }) } })
  for (const [limit, own, passed] of [
    [undefined, key(10, 20), 20],
    [undefined, key(7), 7],
    [{ rate: 5 }, key(10, 20), 5],
    [{ rate: 5 }, key(10), 5],
    [{ rate: 50 }, key(10, 20), 20],
    [{ rate: 50 }, key(10, 60), 50],
  ] as const) {
    t.equal(await open(limit === undefined ? {} : { key: limit }).passedOf(100, own), passed, JSON.stringify([limit, own]))
  }
  const { request } = open({})
  await request(key(1))
  t.match(await request(key(1)), { error: { data: { limit: 'key', perSecond: 1, burst: 1 } } })
})

/** Workers whose messages to the primary and back arrive at once, unless the primary is silent. */
const openWorkers = (count: number, { isSilent = false, limits = { rate: 100, burst: 200 } as object, options = {} } = {}) => {
  const clock = new TestClock()
  const primary = new SharedRateLimits(clock, count)
  const messages: unknown[] = []
  const workers = Array.from({ length: count }, () => {
    const channel = connectWorker(clock, {
      down(deliver, onSent) {
        onSent()
        queueMicrotask(deliver)
      },
    })
    channel.worker.handle({
      takeTokens(request, reply) {
        messages.push(request)
        if (!isSilent) reply(primary.take(request.request, request.most))
      },
    })
    const worker = openWorkerRateLimits(clock, channel.primary)
    const { passedOf, request } = open(options, { clock, rateLimits: worker })
    const plan = withPlan(limits)
    return {
      passedOf: (calls: number, method?: string, now = limits) => passedOf(calls, withPlan(now), method),
      request: () => request(plan),
    }
  })
  return { clock, messages, workers }
}

t.test('several workers together pass no more than the rate, whichever of them get the calls', async t => {
  const { clock, workers, messages } = openWorkers(4)
  const passedAt = async (i: number, count: number) => (await workers[i]?.passedOf(count)) ?? 0
  t.equal(await passedAt(0, 300), 200, 'one worker alone has the whole burst')
  let passed = 0
  for (let second = 0; second < 10; second++) {
    clock.advance(1000)
    for (let i = 0; i < 4; i++) passed += await passedAt(i, second % 2 === 0 ? 60 : i * 60)
  }
  t.ok(passed <= 1000 && passed >= 1000 - 4 * 10, `${passed} of 1000: workers hold at most 5 % of a burst each`)
  t.ok(messages.length < 1000, `${messages.length} requests to the primary`)
})

t.test('a burst over many workers passes nearly whole: a worker holds little of a bucket that is nearly empty', async t => {
  for (const count of [8, 32]) {
    const { workers, messages } = openWorkers(count)
    let passed = 0
    for (let i = 0; i < 200; i++) passed += (await workers[i % count]?.passedOf(1)) ?? 0
    t.ok(passed >= 185, `${passed} of 200 with ${count} workers`)
    t.ok(messages.length <= 200, `${messages.length} requests to the primary`)
  }
})

t.test('a worker that has refused an expensive call passes cheap ones, as one process does', async t => {
  const { workers } = openWorkers(1, { options: { account: { creditRate: 300 } } })
  const [worker] = workers
  t.equal(await worker?.passedOf(1), 1)
  t.equal(await worker?.passedOf(1, 'eth_getLogs'), 0, '255 of 220 credits')
  t.equal(await worker?.passedOf(5), 2)
})

t.test('a refused caller costs the primary no requests', async t => {
  const { workers, messages } = openWorkers(1)
  await workers[0]?.passedOf(200)
  const before = messages.length
  t.equal(await workers[0]?.passedOf(50), 0)
  t.ok(messages.length <= before + 1)
})

t.test('a greater rate holds from the next call on, also at a worker that has refused calls until much later', async t => {
  const { clock, workers } = openWorkers(1, { limits: { rate: 0.01, burst: 2 } })
  const [worker] = workers
  t.equal(await worker?.passedOf(3), 2)
  clock.advance(1_000)
  t.equal(await worker?.passedOf(3), 0)
  t.equal(await worker?.passedOf(150, undefined, { rate: 100, burst: 200 }), 100)
})

t.test('while the primary is silent, each worker limits its own calls, and waits for the primary once a second', async t => {
  const { workers, messages, clock } = openWorkers(2, { isSilent: true })
  for (const worker of workers) {
    const call = worker.request()
    for (let i = 0; i < 10; i++) {
      await new Promise(setImmediate)
      clock.advance(5)
    }
    t.match(await call, { source: 'node' })
    t.equal(await worker.passedOf(300), 199, 'calls that wait for nothing, up to the burst')
  }
  t.equal(messages.length, 2)
  clock.advance(1_000)
  const late = workers[0]?.request()
  await new Promise(setImmediate)
  t.equal(messages.length, 3)
  for (let i = 0; i < 10; i++) {
    await new Promise(setImmediate)
    clock.advance(5)
  }
  t.match(await late, { source: 'node' })
})
