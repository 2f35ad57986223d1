import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import failover from '../../../plugins/failover/index.ts'
import { RetryBudget } from '../../../plugins/failover/retry-budget.ts'
import { LatencyTracker } from '../../../plugins/failover/latency-tracker.ts'
import type { Call, Json, ContextKey, Request } from '../../../src/plugin/call.ts'
import { Cancellation } from '../../../src/plugin/cancellation.ts'
import type { Signal } from '../../../src/plugin/cancellation.ts'
import { isCharged, refuse } from '../../../src/plugin/reply.ts'
import type { Failure, ErrorCategory, Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import type { UpstreamClient, Heads, MethodTable } from '../../../src/services/index.ts'
import {
  TestClock,
  TestLog,
  account,
  fakeCall,
  unreachableNext,
  fakeOrigin,
  fakeResult,
  valueOrErrorCode,
  createStage,
} from '../../support/fakes.ts'

/** Only what failover reads of the table. */
const table = {
  get: (name: string) =>
    (
      ({
        eth_getLogs: { class: 'logs', idempotent: true, maxTime: 10_000, blockParam: 0 },
        eth_call: { class: 'state', idempotent: true, blockParam: 1 },
        eth_getTransactionReceipt: { class: 'light', idempotent: true },
        eth_sendRawTransaction: { class: 'light', idempotent: false },
      }) as Record<string, object>
    )[name],
} as unknown as MethodTable
const node = (name: string, over = {}) => ({ name, url: new Secret(`http://${name}.test`), ...over })
const breaker = { minCalls: 4, errorPercent: 50, window: 10_000, consecutiveFailures: 4, openFor: 60_000 }
const fault = (name: string, over: Partial<Failure> = {}): Failure => ({
  ...refuse('unavailable', { source: 'node', upstream: name, cause: 'HTTP 500' }),
  ...over,
})
const limited = (retryAfter?: number): Failure =>
  fault('a', { category: 'rateLimited', cause: 'HTTP 429', ...(retryAfter !== undefined && { retryAfter }) })

type Answer = (call: Call<ContextKey>) => Reply | Promise<Reply>

const open = (
  world: Record<string, Answer>,
  options: object = {},
  probe: () => Reply | Promise<Reply> = () => fault('x'),
  given: { readonly heads?: Heads } = {},
) => {
  const clock = new TestClock()
  const log = new TestLog()
  const probed: string[] = []
  const agents: UpstreamClient = {
    disconnects: () => 0,
    async request({ name }, { method }) {
      probed.push(`${name} ${method}`)
      return probe()
    },
  }
  const stage = createStage(
    failover,
    { upstreams: [node('a'), node('b')], breaker, ...options },
    { methods: table, upstreamClient: agents, clock, log, ...given },
  )
  const asked: string[] = []
  t.teardown(() => stage.stop?.())
  const ask = (c: Call<ContextKey>) =>
    stage.handle(c, async below => {
      // What the pipeline gives has every note.
      const seen = below as Call<ContextKey>
      asked.push(seen.context.target.name)
      return world[seen.context.target.name]?.(seen) ?? fault(seen.context.target.name)
    })
  const many = async (count: number, c: () => Call<ContextKey> = logs) => {
    for (let i = 0; i < count; i++) await ask(c())
  }
  return { ask, asked, clock, log, many, probed, stage, count: (name: string) => asked.filter(each => each === name).length }
}
const partner = { ...node('p'), methods: ['eth_getLogs'], when: 'outage' }
const growth = { account: { ...account, plan: { ...account.plan, forwarding: true } } }
const logs = (over = {}) => fakeCall('eth_getLogs', [{}], over)

t.test('asks the first node, and the next one when it fails', async t => {
  const { ask, asked } = open({ b: () => fakeResult('b') })
  t.equal(valueOrErrorCode(await ask(logs())), 'b')
  t.same(asked, ['a', 'b'])
})

t.test("an error that is the caller's own goes back at once", async t => {
  const { ask, asked } = open({ a: () => refuse('tooMany') })
  t.equal(valueOrErrorCode(await ask(logs())), -32005)
  t.same(asked, ['a'])
})

t.test('a failing node is left alone once enough of its calls failed, per class of method', async t => {
  const { ask, asked } = open({ b: () => fakeResult('b') })
  for (let i = 0; i < 6; i++) await ask(logs())
  t.equal(asked.filter(name => name === 'a').length, 4)
  await ask(fakeCall('eth_call'))
  t.equal(asked.filter(name => name === 'a').length, 5)
})

t.test('errors of callers never open a breaker', async t => {
  const { ask, asked } = open({ a: () => refuse('timeout') })
  for (let i = 0; i < 50; i++) await ask(logs())
  t.equal(asked.length, 50)
})

t.test('when no node can answer it says 503 -32002 with Retry-After, whose fault is upstream', async t => {
  const { ask } = open({})
  t.match(await ask(logs()), {
    status: 503,
    error: { code: -32002, message: 'no upstream can answer now' },
    fault: 'upstream',
    retryAfter: 5,
  })
})

t.test('eth_getLogs goes to the partner when own nodes are out and the plan qualifies', async t => {
  const { ask, asked } = open({ p: () => fakeResult('p') }, { partner })
  t.equal(valueOrErrorCode(await ask(logs(growth))), 'p')
  t.same(asked, ['a', 'b', 'p'])
})

t.test('the partner is not asked for a plan that does not qualify, for another method, or while a node answers', async t => {
  const { ask, asked } = open({ p: () => fakeResult('p') }, { partner })
  t.equal(valueOrErrorCode(await ask(logs())), -32002)
  t.equal(valueOrErrorCode(await ask(fakeCall('eth_call', [], growth))), -32002)
  t.notOk(asked.includes('p'))
  const healthy = open({ a: () => fakeResult('a') }, { partner })
  t.equal(valueOrErrorCode(await healthy.ask(logs(growth))), 'a')
  t.same(healthy.asked, ['a'])
})

t.test('answers vary by the right to forwarding only where there is a partner for the method', async t => {
  const vary = (notes: object, options: object, headers = {}) => failover.vary?.(notes as never, options as never, fakeOrigin({ headers }))
  const notes = { ...logs(growth).context }
  t.equal(vary(notes, { partner }), 'forwarding')
  t.equal(vary(notes, {}), '')
  t.equal(vary({ ...notes, account }, { partner }), '')
  t.equal(vary({ ...notes, request: { method: 'eth_call', params: [] } }, { partner }), '')
  const onRequest = { partner: { ...partner, when: 'header' } }
  t.equal(vary(notes, onRequest), '')
  t.equal(vary(notes, onRequest, { 'enable-failover': 'true' }), 'forwarding')
})

t.test('a bug below is not taken for a failing node', async t => {
  const stage = createStage(failover, { upstreams: [node('a'), node('b')], breaker }, { methods: table })
  t.teardown(() => stage.stop?.())
  await t.rejects(stage.handle(logs(), unreachableNext), { message: /further than it should/ })
})

t.test('two nodes of one name are a problem', async t => {
  const said: string[] = []
  failover.check?.({ upstreams: [node('a'), node('a')], partner: { ...node('a') }, breaker } as never, (path, message) =>
    said.push(`${path.join('.')}: ${message}`),
  )
  t.same(said, ['upstreams.1.name: two upstreams are named "a"', 'partner.name: an upstream is named "a" too'])
})

t.test('a `ws` that is no WebSocket is a problem', async t => {
  const said: string[] = []
  const [http, ws] = [new Secret('https://node.test/canary'), new Secret('wss://node.test/canary')]
  const options = { upstreams: [node('a', { ws }), node('b', { ws: http }), node('c')], breaker }
  failover.check?.(options as never, (path, message) => said.push(`${path.join('.')}: ${message}`))
  t.same(said, ['upstreams.1.ws: ws must begin with ws:// or wss://'])
})

t.test('breakers', async t => {
  t.test('a node that fails every call is left alone after a few, also when its method is rarely called', async t => {
    const { many, count } = open({ b: () => fakeResult('b') }, { breaker: { ...breaker, minCalls: 20, consecutiveFailures: 5 } })
    await many(12)
    t.equal(count('a'), 5)
  })

  t.test('one that answers now and then is judged by the share that fails', async t => {
    let turn = 0
    const { many, count } = open(
      { a: () => ((turn += 1) % 3 === 0 ? fakeResult('a') : fault('a')), b: () => fakeResult('b') },
      { breaker: { ...breaker, minCalls: 20, consecutiveFailures: 5 } },
    )
    await many(60)
    t.ok(count('a') >= 20 && count('a') < 40, `${count('a')} calls`)
  })

  t.test('one that fails just the percentage of calls that opens it is left alone, and with one failure less it is not', async t => {
    const isOpen = async (errorPercent: number, failures: number) => {
      let good = 100 - failures
      const { many, log } = open(
        { a: () => (good-- > 0 ? fakeResult('a') : fault('a')), b: () => fakeResult('b') },
        { breaker: { ...breaker, errorPercent, minCalls: 100, consecutiveFailures: 1e6 } },
      )
      await many(100)
      return log.lines.some(({ message }) => message === 'breaker open')
    }
    for (const errors of [1, 7, 29, 50, 57, 99, 100]) {
      t.same([await isOpen(errors, errors), await isOpen(errors, errors - 1)], [true, false], `${errors} %`)
    }
  })

  t.test('a node that hangs is left alone at once, for all classes of method', async t => {
    const { ask, count } = open({ a: () => fault('a', { unresponsive: true }), b: () => fakeResult('b') })
    t.equal(valueOrErrorCode(await ask(logs())), 'b')
    t.equal(valueOrErrorCode(await ask(fakeCall('eth_call'))), 'b')
    t.equal(count('a'), 1)
  })

  t.test("after the pause the node is tried by us, never with a caller's call", async t => {
    let isWell = false
    const reply = () => (isWell ? fakeResult('0x1') : fault('a'))
    const { many, ask, count, probed, log } = open({ a: reply, b: () => fakeResult('b') }, { breaker: { ...breaker, openFor: 20 } }, reply)
    await many(6)
    t.equal(count('a'), 4)
    while (probed.length < 3) await new Promise(resolve => setTimeout(resolve, 5))
    await many(3)
    t.equal(count('a'), 4, 'probes that failed keep it open')
    isWell = true
    while (!log.lines.some(({ message }) => message === 'breaker closed')) await new Promise(resolve => setTimeout(resolve, 5))
    t.equal(valueOrErrorCode(await ask(logs())), '0x1')
    t.ok(probed.every(each => each === 'a eth_blockNumber'))
    t.equal(log.lines.filter(({ message }) => message === 'breaker open').length, 1, 'said once')
  })

  for (const [what, reply] of [
    ['a caller who left', refuse('unavailable', { source: 'node', fault: 'caller' })],
    ['a query that takes too long', refuse('timeout')],
    ['an answer that is too large', refuse('tooLarge', { source: 'node', retryElsewhere: true })],
    ['a request that is too long for it', refuse('bodyTooLarge', { source: 'node', fault: 'upstream', retryElsewhere: true })],
    ['our own limit', refuse('unavailable', { upstream: 'a' })],
    ['an error that callers bring about', fault('a', { retryElsewhere: true })],
  ] as const) {
    t.test(`${what} says nothing about the node`, async t => {
      const { many, count } = open({ a: () => reply, b: () => ('retryElsewhere' in reply ? reply : fakeResult('b')) })
      await many(30)
      t.equal(count('a'), 30)
    })
  }
})

t.test('all nodes down is told at once', async t => {
  const { many, ask, asked } = open({})
  await many(10)
  const before = asked.length
  const begun = performance.now()
  for (let i = 0; i < 100; i++) t.match(await ask(logs()), { status: 503, fault: 'upstream', retryAfter: 5 })
  t.ok((performance.now() - begun) / 100 < 20)
  t.equal(asked.length, before)
})

t.test('rate limits of nodes', async t => {
  t.test('leave the node alone for as long as it says, and then one call tries', async t => {
    const { ask, many, clock, count } = open({ a: () => limited(10), b: () => fakeResult('b') })
    await many(50)
    t.equal(count('a'), 1)
    clock.advance(9_999)
    await many(5)
    t.equal(count('a'), 1)
    clock.advance(1)
    await Promise.all(Array.from({ length: 20 }, () => ask(logs())))
    t.equal(count('a'), 2)
  })

  t.test('without Retry-After it is left alone for 1 s, then 2 s, 4 s, at most 60 s', async t => {
    const { many, clock, count } = open({ a: () => limited(), b: () => fakeResult('b') })
    for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
      const before = count('a')
      await many(3)
      t.equal(count('a'), before + 1)
      clock.advance(seconds * 1000 - 1)
      await many(3)
      t.equal(count('a'), before + 1, `still at rest within ${seconds} s`)
      clock.advance(1)
    }
  })

  t.test('end when the call that tries is answered, and not when its caller leaves', async t => {
    let reply: Reply = limited(1)
    const { many, clock, count, ask } = open({ a: () => reply, b: () => fakeResult('b') })
    await many(1)
    clock.advance(1000)
    reply = refuse('unavailable', { source: 'node', fault: 'caller' })
    await many(1)
    reply = fakeResult('a')
    const [first, second] = await Promise.all([ask(logs()), ask(logs())])
    t.same([valueOrErrorCode(first), valueOrErrorCode(second)], ['a', 'b'], 'one tries, the others go on to the next node')
    t.equal(valueOrErrorCode(await ask(logs())), 'a')
    t.equal(count('a'), 4)
  })

  t.test("never become the caller's, and never open a breaker", async t => {
    const { ask, clock, log } = open({ a: () => limited(1), b: () => limited(30) })
    for (let i = 0; i < 40; i++) {
      t.match(await ask(logs()), { status: 503, error: { code: -32002 } })
      clock.advance(1000)
    }
    t.notOk(log.lines.some(({ message }) => message === 'breaker open'))
  })
})

t.test('attempts beyond the first', async t => {
  t.test('are no more than 20 % of calls while they fail', async t => {
    const { ask, asked } = open({}, { breaker: { ...breaker, minCalls: 1e6, consecutiveFailures: 1e6 } })
    await Promise.all(Array.from({ length: 500 }, () => ask(logs())))
    t.ok(asked.length <= 600, `${asked.length} attempts for 500 calls`)
    t.ok(asked.length >= 590)
  })

  t.test('are for all calls when the next node is healthy, also when they come at once', async t => {
    const { ask, asked } = open({ b: async () => (await turn(), fakeResult('b')) })
    const replies = await Promise.all(Array.from({ length: 500 }, () => ask(logs())))
    t.ok(replies.every(reply => valueOrErrorCode(reply) === 'b'))
    t.equal(asked.length, 1000)
  })

  t.test('go to no node that was cut off, or limits us, while they waited for their place', async t => {
    const answers: ((reply: Reply) => void)[] = []
    let isUp = true
    const { ask, count, many } = open(
      { a: () => (isUp ? fakeResult('a') : fault('a')), b: () => new Promise(resolve => answers.push(resolve)) },
      { breaker: { ...breaker, minCalls: 1e6, consecutiveFailures: 1e6 } },
    )
    await many(100)
    isUp = false
    const replies = Array.from({ length: 30 }, () => ask(logs()))
    await turn()
    t.equal(count('b'), 26, 'a fifth of 130 calls')
    answers.shift()?.(limited(10))
    await turn()
    for (const answer of answers) answer(fakeResult('b'))
    t.same((await Promise.all(replies)).map(valueOrErrorCode).sort(), [...Array(5).fill(-32002), ...Array(25).fill('b')])
    t.equal(count('b'), 26)
  })

  t.test('share the time of a method that has one: ten seconds over all nodes', async t => {
    const ends: Signal[] = []
    const untilLeft = (c: Call<ContextKey>) =>
      new Promise<Reply>(resolve => {
        const signal = c.signal ?? c.origin.signal
        ends.push(signal)
        signal.addEventListener('abort', () => resolve(refuse('unavailable', { fault: 'caller', source: 'node' })))
      })
    const slowly =
      (ms: number): Answer =>
      () => {
        world.clock.advance(ms)
        return fault('a')
      }
    let world = open({ a: slowly(3000), b: untilLeft })
    const reply = world.ask(logs())
    await turn()
    world.clock.advance(6999)
    t.equal(ends[0]?.aborted, false)
    world.clock.advance(1)
    const late = await reply
    t.match(late, { error: { code: -32005, message: 'query timeout exceeded' }, fault: 'upstream', upstream: 'b', status: 200 })
    t.notOk(isCharged(late), 'nodes failed first')
    world = open({ a: slowly(3000), b: () => fakeResult('b') })
    t.equal(valueOrErrorCode(await world.ask(logs())), 'b')
    world = open({ a: slowly(10_000), b: () => fakeResult('b') })
    t.match(await world.ask(logs()), { error: { code: -32005 } })
    t.same(world.asked, ['a'])
    world = open({ a: slowly(10_000), b: () => fakeResult('b') })
    t.equal(valueOrErrorCode(await world.ask(fakeCall('eth_call'))), 'b', 'other methods have none')
  })

  t.test('end when their caller leaves', async t => {
    let end: Signal | undefined
    const { ask } = open({
      b: c =>
        new Promise(() => {
          end = c.signal
        }),
    })
    const signal = new Cancellation()
    void ask({ ...logs(), origin: fakeOrigin({ signal }) })
    await turn()
    t.equal(end?.aborted, false)
    signal.abort()
    t.equal(end?.aborted, true)
  })

  t.test('are at least three, and places come back as the window moves on', async t => {
    const clock = new TestClock()
    const budget = new RetryBudget(clock)
    const spend = async () => {
      let spent = 0
      while (await budget.reserve()) {
        budget.release(true)
        spent += 1
      }
      return spent
    }
    budget.recordCall()
    t.equal(await spend(), 3)
    clock.advance(11_000)
    t.equal(await spend(), 3)
    for (let i = 0; i < 100; i++) budget.recordCall()
    t.equal(await spend(), 17)
  })
})

t.test('an answer that is not of the kind that its method gives', async t => {
  const odd = (name: string) => () => fakeResult(name, { unexpectedType: true, upstream: name })

  t.test('is given only if no other node, nor the partner, knows better', async t => {
    t.equal(valueOrErrorCode(await open({ a: odd('a'), b: () => fakeResult('b') }).ask(logs())), 'b')
    t.equal(valueOrErrorCode(await open({ a: odd('a'), b: odd('b') }).ask(logs())), 'a')
    t.equal(valueOrErrorCode(await open({ a: odd('a') }).ask(logs())), 'a')
    t.equal(valueOrErrorCode(await open({ a: odd('a'), p: () => fakeResult('p') }, { partner }).ask(logs(growth))), 'p')
    t.equal(valueOrErrorCode(await open({ a: odd('a'), p: odd('p') }, { partner }).ask(logs(growth))), 'a')
  })

  t.test('opens no breaker, but its node comes last while others answer', async t => {
    const { ask, asked, many, clock } = open({ a: odd('a'), b: () => fakeResult('b') })
    await many(6)
    asked.length = 0
    t.equal(valueOrErrorCode(await ask(logs())), 'b')
    t.same(asked, ['b'])
    clock.advance(60_000)
    await ask(logs())
    t.same(asked, ['b', 'a', 'b'])
  })
})

t.test('errors that another node may better', async t => {
  const elsewhere = (over = {}): Failure => ({
    ...refuse('params', { source: 'node', upstream: 'a' }),
    kind: 'node',
    retryElsewhere: true,
    ...over,
  })

  t.test('are the answer only if no other node knows better', async t => {
    t.equal(valueOrErrorCode(await open({ a: () => elsewhere(), b: () => fakeResult('b') }).ask(logs())), 'b')
    t.equal(valueOrErrorCode(await open({ a: () => elsewhere() }).ask(logs())), -32602)
  })

  t.test('are no outage: the partner is not asked', async t => {
    const { ask, asked } = open({ a: () => elsewhere(), p: () => fakeResult('p') }, { partner })
    t.equal(valueOrErrorCode(await ask(logs(growth))), -32602)
    t.notOk(asked.includes('p'))
  })

  t.test("are an outage when they are the node's own doing: then the partner is asked", async t => {
    const { ask, asked } = open({ a: () => elsewhere({ fault: 'upstream' }), p: () => fakeResult('p') }, { partner })
    t.equal(valueOrErrorCode(await ask(logs(growth))), 'p')
    t.same(asked, ['a', 'b', 'p'])
  })

  t.test('are about the question rather than about a node, where there is a choice', async t => {
    const internal = () => elsewhere({ fault: 'upstream', error: { code: -32000, message: 'x' } })
    t.equal(valueOrErrorCode(await open({ a: internal, b: () => elsewhere() }).ask(logs())), -32602)
    t.equal(valueOrErrorCode(await open({ a: () => elsewhere(), b: internal }).ask(logs())), -32602)
    t.equal(valueOrErrorCode(await open({ a: internal, b: internal }).ask(logs())), -32000)
  })

  t.test('too much work for our own limits is no outage either', async t => {
    const { ask, asked } = open({ a: () => refuse('unavailable'), b: () => refuse('unavailable') }, { partner })
    t.equal(valueOrErrorCode(await ask(logs(growth))), -32002)
    t.same(asked, ['a', 'b'])
  })
})

t.test('a node that fails what others answer', async t => {
  const internal = () => fault('a', { retryElsewhere: true })
  const late = { ...breaker, consecutiveFailures: 3, openFor: 5000 }
  const world = (a: Answer, b: Answer = () => fakeResult('b'), more = {}) => open({ a, b, ...more }, { breaker: late, partner })

  t.test('is asked last for that method, and then once in each pause, until it answers', async t => {
    let reply: Reply = internal()
    const { many, count, clock, log, ask } = world(() => reply)
    await many(20)
    t.equal(count('a'), 3)
    t.same(
      log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message),
      ['upstream is asked last: others answer what it fails'],
    )
    await ask(fakeCall('eth_call'))
    t.equal(count('a'), 4, 'other methods have nothing to do with it')
    for (let i = 1; i <= 3; i++) {
      clock.advance(5000)
      await many(20)
      t.equal(count('a'), 4 + i)
    }
    reply = fakeResult('a')
    clock.advance(5000)
    t.equal(valueOrErrorCode(await ask(logs())), 'a')
    t.equal(valueOrErrorCode(await ask(logs())), 'a')
  })

  t.test('is asked all the same when no other can answer', async t => {
    let b: Reply = fakeResult('b')
    const { many, ask, asked } = world(
      () => (asked.length < 10 ? internal() : fakeResult('a')),
      () => b,
    )
    await many(5)
    b = fault('b')
    t.equal(valueOrErrorCode(await ask(logs())), 'a')
  })

  for (const [what, a, b] of [
    ['others fail it too', internal(), { ...internal(), upstream: 'b' }],
    ['it is about the question', { ...internal(), fault: 'caller' }, fakeResult('b')],
    ['only the partner answers', internal(), fault('b')],
  ] as const) {
    t.test(`nothing follows when ${what}`, async t => {
      const { many, count } = world(
        () => a as Reply,
        () => b as Reply,
        { p: () => fakeResult('p') },
      )
      await many(2, () => logs(growth))
      const before = count('a')
      await many(2, () => logs(growth))
      t.equal(count('a'), before + 2)
    })
  }
})

t.test('a node that lacks old state', async t => {
  /** The newest block is 0x1000, the final one 0x400. */
  const heads = {
    snapshot: { head: 0x1000, finalizedBlockOf: () => ({ number: 0x400, hash: '0x' }) },
    orderUpstreams: (all: unknown) => all,
    recordActivity: () => {},
  } as unknown as Heads // all that is read of them
  const lacking: Failure = {
    ...refuse('params', { source: 'node', upstream: 'a', category: 'blockNotFound', retryElsewhere: true }),
    kind: 'node',
  }
  const hash = `0x${'ab'.repeat(32)}`
  const at = (block: Json) => () => fakeCall('eth_call', [{}, block])
  const logsOf = (filter: Json) => () => fakeCall('eth_getLogs', [filter])
  const world = (a: Answer, b: Answer = () => fakeResult('b'), known = heads) =>
    open({ a, b }, { breaker: { ...breaker, consecutiveFailures: 3, openFor: 5000 } }, undefined, { heads: known })
  const isOld = ({
    context: {
      request: { params },
    },
  }: Call<ContextKey>) => JSON.stringify(params).includes('0x5')
  const pruned: Answer = c => (isOld(c) ? lacking : fakeResult('a'))

  t.test('is asked last for that, and first for what it has', async t => {
    const { many, count, ask, log } = world(pruned)
    await many(20, at('0x5'))
    t.equal(count('a'), 3)
    t.same(
      log.lines.map(({ fields, message }) => ({ fields, message })),
      [{ fields: { upstream: 'a', method: 'eth_call', blocks: 'past' }, message: 'upstream is asked last: others answer what it fails' }],
    )
    for (const recent of [[], [{}, 'latest'], [{}, 'pending'], [{}, '0xfff'], [{}, { blockNumber: '0xff0' }], [{}, '0x1001']]) {
      t.equal(valueOrErrorCode(await ask(fakeCall('eth_call', recent))), 'a', JSON.stringify(recent))
    }
    t.equal(valueOrErrorCode(await ask(fakeCall('eth_getLogs', [{ fromBlock: '0x6' }]))), 'a', 'other methods have nothing to do with it')
    await many(5, at('0x5'))
    t.equal(count('a'), 3 + 7, 'nor does what it has clear it of what it lacks')
  })

  for (const [depth, question, others] of [
    ['old', at('0x5'), [at('0x6'), at('earliest'), at('0xf00'), at({ blockNumber: '0x7' }), at('finalized'), at('safe')]],
    [
      'old',
      logsOf({ fromBlock: '0x5', toBlock: 'latest' }),
      [logsOf({ fromBlock: 'earliest' }), logsOf({ fromBlock: '0x7', toBlock: '0x8' })],
    ],
    ['recent', at('latest'), [at('0xfff'), at('pending'), at({ blockNumber: '0xfc0' }), () => fakeCall('eth_call', [{}])]],
    ['recent', logsOf({ fromBlock: '0xfff' }), [logsOf({}), logsOf({ fromBlock: 'latest', toBlock: 'latest' })]],
    ['by their hash', at(hash), [at({ blockHash: hash }), at(`0x${'cd'.repeat(32)}`)]],
    ['by their hash', logsOf({ blockHash: hash }), [logsOf({ blockHash: `0x${'cd'.repeat(32)}` })]],
  ] as const) {
    t.test(`what counts as ${depth} is asked elsewhere together: ${JSON.stringify(question().context.request.params)}`, async t => {
      const { many, count } = world(() => lacking)
      await many(3, question)
      for (const other of others) {
        await many(2, other)
        t.equal(count('a'), 3, JSON.stringify(other().context.request.params))
      }
      for (const other of [at('0x8'), at('latest'), at(hash), logsOf({ fromBlock: '0x8' }), logsOf({}), logsOf({ blockHash: hash })])
        await many(1, other)
      t.equal(count('a'), 8, 'and nothing else')
    })
  }

  for (const [what, question, a, b, known] of [
    ['no node has the block', at('0x5'), () => lacking, () => lacking, heads],
    ['it is near the oldest that full nodes keep', at('0xf80'), () => lacking, undefined, heads],
    ['no head is known', at('0x5'), () => lacking, undefined, { ...heads, snapshot: { ...heads.snapshot, head: undefined } }],
    ['the question names no block', () => fakeCall('eth_getTransactionReceipt', [hash]), () => lacking, undefined, heads],
    ['the query is too wide', at('0x5'), () => ({ ...lacking, category: 'rangeTooWide' }), undefined, heads],
  ] as const) {
    t.test(`nothing follows when ${what}`, async t => {
      const { many, count } = world(a as Answer, b, known)
      await many(4, question)
      const before = count('a')
      await many(2, question)
      t.equal(count('a'), before + 2)
    })
  }

  t.test('is tried once more after each pause, until it has it', async t => {
    let isOver = false
    const { many, count, clock, ask } = world(c => (isOver ? fakeResult('a') : pruned(c)))
    await many(5, at('0x5'))
    for (let i = 1; i <= 2; i++) {
      clock.advance(5000)
      await many(5, at('0x5'))
      t.equal(count('a'), 3 + i)
    }
    isOver = true
    clock.advance(5000)
    for (let i = 0; i < 3; i++) t.equal(valueOrErrorCode(await ask(at('0x5')())), 'a')
  })

  t.test('is asked all the same when no other can answer', async t => {
    let isThere = true
    const { many, ask } = world(
      c => (isThere ? pruned(c) : fakeResult('a')),
      () => (isThere ? fakeResult('b') : fault('b')),
    )
    await many(5, at('0x5'))
    isThere = false
    t.equal(valueOrErrorCode(await ask(at('0x5')())), 'a')
  })
})

t.test('the partner', async t => {
  t.test('is asked at once when all own nodes are cut off or rest', async t => {
    const { ask, asked, many } = open(
      { a: () => fault('a', { unresponsive: true }), b: () => limited(60), p: () => fakeResult('p') },
      { partner },
    )
    await many(1)
    asked.length = 0
    t.equal(valueOrErrorCode(await ask(logs(growth))), 'p')
    t.same(asked, ['p'])
  })

  t.test('answers nobody while it says that it is on another chain', async t => {
    let chain: Json = '0x5'
    const { ask, asked, clock, count, log, probed } = open({ p: () => fakeResult('p') }, { partner }, () => fakeResult(chain))
    t.equal(valueOrErrorCode(await ask(logs(growth))), -32002)
    t.same(
      log.lines.filter(({ level }) => level === 'error'),
      [
        {
          level: 'error',
          fields: { upstream: 'p', reason: 'chain', because: 'it is on chain 5' },
          message: 'the partner is left out: it is on another chain',
        },
      ],
    )
    t.equal(valueOrErrorCode(await ask(logs(growth))), -32002)
    t.equal(count('p'), 1, 'it is left alone for a minute')
    chain = '0x7A69'
    clock.advance(60_000)
    t.equal(valueOrErrorCode(await ask(logs(growth))), 'p')
    const before = probed.length
    clock.advance(599_999)
    t.equal(valueOrErrorCode(await ask(logs(growth))), 'p')
    t.notOk(probed.slice(before).includes('p eth_chainId'))
    chain = '0x1'
    clock.advance(1)
    t.equal(valueOrErrorCode(await ask(logs(growth))), -32002)
    t.equal(asked.filter(name => name === 'p').length, 4)
  })

  t.test('answers nobody before it has said on which chain it is', async t => {
    let say = (_reply: Reply) => {}
    const chain = new Promise<Reply>(resolve => {
      say = resolve
    })
    const { ask, count, many, probed } = open({ p: () => fakeResult('p') }, { partner }, () => chain)
    await many(12) // cuts off the own nodes
    const replies = [ask(logs(growth)), ask(logs(growth))]
    await turn()
    t.equal(count('p'), 2)
    say(fakeResult('0x5'))
    for (const reply of await Promise.all(replies)) t.equal(valueOrErrorCode(reply), -32002)
    t.equal(probed.filter(each => each === 'p eth_chainId').length, 1, 'it is asked once')
  })

  t.test('is taken at its word for no other chain but one that it names', async t => {
    for (const chain of [
      refuse('unavailable'),
      refuse('method'),
      ...['0x7a69', 'yes', '0x', '0x5 ', [], null, 5, `0x${'1'.repeat(64)}`].map(id => fakeResult(id)),
    ]) {
      const { ask, probed } = open({ p: () => fakeResult('p') }, { partner }, () => chain)
      t.equal(valueOrErrorCode(await ask(logs(growth))), 'p', JSON.stringify(valueOrErrorCode(chain)))
      t.ok(probed.includes('p eth_chainId'))
    }
  })

  t.test('with `when: header` is for callers who say Enable-Failover: true', async t => {
    const ask = async (headers: Record<string, string>, notes = growth) =>
      valueOrErrorCode(
        await open({ p: () => fakeResult('p') }, { partner: { ...partner, when: 'header' } }).ask({
          ...logs(notes),
          origin: fakeOrigin({ headers }),
        }),
      )
    t.equal(await ask({}), -32002)
    t.equal(await ask({ 'enable-failover': 'false' }), -32002)
    t.equal(await ask({ 'enable-failover': 'True' }), 'p')
    t.equal(await ask({ 'enable-failover': 'true' }, { account }), -32002, 'the plan must qualify all the same')
  })
})

t.test('weights share the calls, as evenly as they can', async t => {
  const world = { a: () => fakeResult('a'), b: () => fakeResult('b'), c: () => fakeResult('c') }
  const upstreams = [node('a', { weight: 3 }), node('b'), node('c', { weight: 0 })]
  const { many, asked } = open(world, { upstreams })
  await many(8)
  t.same(asked, ['a', 'a', 'b', 'a', 'a', 'a', 'b', 'a'])
  const broken = open({ ...world, b: () => fault('b', { unresponsive: true }) }, { upstreams })
  await broken.many(8)
  t.equal(broken.count('a'), 8)
  t.equal(broken.count('c'), 0)
  const last = open({ c: world.c }, { upstreams })
  t.equal(valueOrErrorCode(await last.ask(logs())), 'c', 'without weight only when no other can answer')
})

t.test('hedging', async t => {
  const opened = async (world: Record<string, Answer>, count = 200) => {
    let isSlow = false
    const ends: Signal[] = []
    const slow: Answer = c => {
      if (!isSlow) return fakeResult('a')
      ends.push(c.signal ?? c.origin.signal)
      return new Promise(() => undefined)
    }
    const it = open({ a: slow, b: () => fakeResult('b'), ...world }, { hedge: true })
    await it.many(count)
    isSlow = true
    it.asked.length = 0
    return { ...it, ends }
  }

  t.test('asks the next node too, and leaves the slow one', async t => {
    const { ask, asked, clock, ends } = await opened({})
    const reply = ask(logs())
    clock.advance(1)
    t.equal(valueOrErrorCode(await reply), 'b')
    t.same(asked, ['a', 'b'])
    t.equal(ends[0]?.aborted, true)
  })

  t.test('waits for the first when the second fails', async t => {
    const { ask, clock } = await opened({
      a: () =>
        turn()
          .then(() => turn())
          .then(() => fakeResult('a')),
      b: () => fault('b'),
    })
    const reply = ask(logs())
    clock.advance(1)
    t.equal(valueOrErrorCode(await reply), 'a')
  })

  t.test('gives what is about the question rather than about a node, when both fail', async t => {
    const words: Failure = { ...refuse('params', { source: 'node', upstream: 'a' }), kind: 'node', retryElsewhere: true }
    let isBad = false
    const a: Answer = () => (isBad ? turn(words) : fakeResult('a'))
    const { ask, asked, clock } = await opened({
      a,
      b: () =>
        turn()
          .then(() => turn())
          .then(() => fault('b')),
    })
    isBad = true
    const reply = ask(logs())
    clock.advance(1)
    t.equal(valueOrErrorCode(await reply), -32602)
    t.same(asked, ['a', 'b'])
  })

  t.test('holds what the second node lacks against nobody else', async t => {
    const lacking: Failure = {
      ...refuse('params', { source: 'node', upstream: 'b', category: 'blockNotFound', retryElsewhere: true }),
      kind: 'node',
    }
    let isBad = false
    const a: Answer = () =>
      isBad
        ? turn()
            .then(() => turn())
            .then(() => fault('a', { retryElsewhere: true }))
        : fakeResult('a')
    const { ask, asked, clock, many } = open(
      { a, b: () => lacking, c: () => fakeResult('c') },
      { upstreams: ['a', 'b', 'c'].map(name => node(name)), hedge: true },
    )
    await many(200)
    isBad = true
    for (let i = 0; i < 6; i++) {
      asked.length = 0
      const reply = ask(logs())
      clock.advance(1)
      t.equal(valueOrErrorCode(await reply), 'c')
    }
    t.same(asked, ['a', 'c'])
  })

  t.test('is not for what must not be sent twice', async t => {
    const send = () => fakeCall('eth_sendRawTransaction', ['0x01'])
    const { ask, asked, clock, many } = await opened({ a: () => turn(fakeResult('a')) })
    await many(200, send)
    asked.length = 0
    const reply = ask(send())
    clock.advance(60_000)
    t.equal(valueOrErrorCode(await reply), 'a')
    t.same(asked, ['a'])
  })

  t.test('asks no second time for more than a fifth of the calls', async t => {
    const { ask, count, clock } = await opened({}, 50)
    for (let i = 0; i < 40; i++) void ask(logs())
    clock.advance(1)
    await turn()
    t.equal(count('a'), 40)
    t.equal(count('b'), 18)
  })

  t.test("95 % of a node's calls take less than its usual time", async t => {
    const pace = new LatencyTracker()
    t.equal(pace.p95, undefined)
    for (let ms = 1; ms <= 100; ms++) pace.record(ms)
    t.ok(Number(pace.p95) >= 90 && Number(pace.p95) <= 96)
  })
})

t.test('a transaction that may have been sent', async t => {
  // The first transaction of the EIP-155 example, and its hash.
  const raw =
    '0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83'
  const hash = '0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788'
  const error = (message: string, category?: ErrorCategory): Failure => ({
    ...refuse('params', { source: 'node', upstream: 'b' }),
    kind: 'node',
    error: { code: -32000, message },
    ...(category && { category }),
  })
  const send = (text = raw) => fakeCall('eth_sendRawTransaction', [text])

  t.test('is sent to each node once, and known to the next one means that it was sent', async t => {
    const { ask, asked } = open({ b: () => error('already known', 'alreadyKnown') })
    t.match(await ask(send()), { source: 'node', upstream: 'b', result: Buffer.from(`"${hash}"`) })
    t.same(asked, ['a', 'b'])
  })

  t.test('known to the first node is what the node says', async t => {
    t.equal(valueOrErrorCode(await open({ a: () => error('already known', 'alreadyKnown') }).ask(send())), -32000)
  })

  t.test('a nonce that is used up by this transaction was a success; by another it was not', async t => {
    const requests: Request[] = []
    const b =
      (found: Json): Answer =>
      ({ context: notes }) => {
        requests.push(notes.request)
        return notes.request.method === 'eth_sendRawTransaction' ? error('nonce too low: next nonce 5, tx nonce 4') : fakeResult(found)
      }
    t.equal(valueOrErrorCode(await open({ b: b({ hash }) }).ask(send())), hash)
    t.match(requests.at(-1), { method: 'eth_getTransactionByHash', params: [hash] })
    t.equal(valueOrErrorCode(await open({ b: b(null) }).ask(send())), -32000)
  })

  t.test("with blobs its hash is not that of what was sent: the node's words stand", async t => {
    t.equal(valueOrErrorCode(await open({ b: () => error('already known', 'alreadyKnown') }).ask(send('0x03f87001'))), -32000)
  })
})
