import { setImmediate as turn } from 'node:timers/promises'
import t from '../../support/tap.ts'
import { late } from '../../../plugins/failover/node-attempt.ts'
import { RejectedReplies, RetryBudget } from '../../../plugins/failover/retries.ts'
import type { UpstreamNode } from '../../../plugins/failover/upstream-node.ts'
import type { Call, ContextKey, Signal } from '../../../src/plugin/call.ts'
import { Cancellation } from '../../../src/plugin/call.ts'
import { isCharged, refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import { TestClock, fakeAccount, fakeCall, fakeOrigin, fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { failure, getLogs, node, openFailover, partner, rateLimited, uncounted } from './failover-fixture.ts'
import type { Responder } from './failover-fixture.ts'

t.test('a failure that says nothing about the call is that of an attempt given up as late, whatever words another failure has', async t => {
  const upstreamNode = {} as UpstreamNode // nothing of it is read here
  const given = late({ ...node('a'), source: 'node' })
  const worded = refuse('unavailable', { source: 'node', upstream: 'b', cause: given.cause, retryElsewhere: true })
  const rejected = new RejectedReplies()
  rejected.add(given, upstreamNode)
  t.equal(rejected.best, undefined)
  rejected.add(worded, upstreamNode)
  t.equal(rejected.best, worded)
})

t.test('retries', async t => {
  t.test('are no more than 20 % of calls while they fail', async t => {
    const { request, requested } = openFailover(t, { a: () => uncounted('a'), b: () => uncounted('b') })
    await Promise.all(Array.from({ length: 500 }, () => request(getLogs())))
    t.ok(requested.length <= 600, `${requested.length} attempts for 500 calls`)
    t.ok(requested.length >= 590)
  })

  t.test('are for all calls when the next node is healthy, also when the calls come at once', async t => {
    const { request, requested } = openFailover(t, { b: async () => (await turn(), fakeResult('b')) })
    const replies = await Promise.all(Array.from({ length: 500 }, () => request(getLogs())))
    t.ok(replies.every(reply => valueOrErrorCode(reply) === 'b'))
    t.equal(requested.length, 1000)
  })

  t.test('go to no node whose breaker opened, or whose rate limit began, while they waited for the budget', async t => {
    const answers: ((reply: Reply) => void)[] = []
    let isUp = true
    const { request, countOf, requestMany } = openFailover(t, {
      a: () => (isUp ? fakeResult('a') : uncounted('a')),
      b: () => new Promise(resolve => answers.push(resolve)),
    })
    await requestMany(100)
    isUp = false
    const replies = Array.from({ length: 30 }, () => request(getLogs()))
    await turn()
    t.equal(countOf('b'), 26, 'a fifth of 130 calls')
    answers.shift()?.(rateLimited(10))
    await turn()
    for (const answer of answers) answer(fakeResult('b'))
    t.same((await Promise.all(replies)).map(valueOrErrorCode).sort(), [...Array(5).fill(-32002), ...Array(25).fill('b')])
    t.equal(countOf('b'), 26)
  })

  t.test('share the maxTime of a method with the first attempt', async t => {
    const ends: Signal[] = []
    const waitForAbort = (call: Call<ContextKey>) =>
      new Promise<Reply>(resolve => {
        const signal = call.signal ?? call.origin.signal
        ends.push(signal)
        signal.addEventListener('abort', () => resolve(refuse('unavailable', { fault: 'caller', source: 'node' })))
      })
    const failAfter =
      (ms: number): Responder =>
      () => {
        opened.clock.advance(ms)
        return failure('a')
      }
    let opened = openFailover(t, { a: failAfter(3000), b: waitForAbort })
    const reply = opened.request(getLogs())
    await turn()
    opened.clock.advance(6999)
    t.equal(ends[0]?.aborted, false)
    opened.clock.advance(1)
    const late = await reply
    t.match(late, { error: { code: -32005, message: 'query timeout exceeded' }, fault: 'upstream', upstream: 'b', status: 200 })
    t.notOk(isCharged(late), 'nodes failed first')
    opened = openFailover(t, { a: failAfter(3000), b: () => fakeResult('b') })
    t.equal(valueOrErrorCode(await opened.request(getLogs())), 'b')
    opened = openFailover(t, { a: failAfter(10_000), b: () => fakeResult('b') })
    t.match(await opened.request(getLogs()), { error: { code: -32005 } })
    t.same(opened.requested, ['a'])
    opened = openFailover(t, { a: failAfter(10_000), b: () => fakeResult('b') })
    t.equal(valueOrErrorCode(await opened.request(fakeCall('eth_call'))), 'b', 'other methods have no maxTime')
  })

  t.test('end when their caller leaves', async t => {
    let end: Signal | undefined
    const { request } = openFailover(t, {
      b: call =>
        new Promise(() => {
          end = call.signal
        }),
    })
    const signal = new Cancellation()
    void request({ ...getLogs(), origin: fakeOrigin({ signal }) })
    await turn()
    t.equal(end?.aborted, false)
    signal.abort()
    t.equal(end?.aborted, true)
  })

  t.test('are at least three, and the budget is renewed as its window moves on', async t => {
    const clock = new TestClock()
    const budget = new RetryBudget(clock)
    const exhaust = async () => {
      let retries = 0
      while (await budget.reserve()) {
        budget.release(true)
        retries += 1
      }
      return retries
    }
    budget.recordCall(clock.monotonic())
    t.equal(await exhaust(), 3)
    clock.advance(11_000)
    t.equal(await exhaust(), 3)
    for (let i = 0; i < 100; i++) budget.recordCall(clock.monotonic())
    t.equal(await exhaust(), 17)
  })
})

t.test('a call that a node does not finish in time', async t => {
  const slow = refuse('timeout', { source: 'node', upstream: 'a', category: 'timeout', fault: 'upstream', retryElsewhere: true })
  const slowCall = refuse('unavailable', { source: 'node', upstream: 'a', category: 'timeout', retryElsewhere: true })
  /** Begins a call that takes 5 s, meanwhile answers `others`, and returns the reply. */
  const replyBeside = async (
    others: readonly { method: string; tookMs: number }[],
    { method = 'eth_getLogs', warmUp = 0, nodes = ['a'] } = {},
  ) => {
    let finish = (_reply: Failure): void => undefined
    const { request, requested, clock } = openFailover(
      t,
      {
        a: async call => {
          const { params } = call.context.request
          if (params[0] === 'slow') return new Promise<Reply>(resolve => (finish = resolve))
          clock.advance(Number(params[0]))
          return fakeResult([])
        },
      },
      { upstreams: nodes.map(name => node(name)) },
    )
    for (let i = 0; i < warmUp; i++) await request(fakeCall(method, [10]))
    clock.advance(1000)
    const reply = request(fakeCall(method, ['slow']))
    for (const other of others) await request(fakeCall(other.method, [other.tookMs]))
    clock.advance(5000)
    finish(method === 'eth_getLogs' ? slow : slowCall)
    return { reply: await reply, requested }
  }

  t.test('is due to the caller, if the node answered another of a heavy class meanwhile, as fast as usual', async t => {
    const { reply, requested } = await replyBeside([{ method: 'eth_getLogs', tookMs: 10 }], { nodes: ['a', 'b'] })
    t.match(reply, { kind: 'timeout', fault: 'caller', source: 'node', upstream: 'a', status: 200, error: { code: -32005 } })
    t.ok(isCharged(reply))
    t.same(requested, ['a', 'a'], 'no other node is requested')
    t.ok(isCharged((await replyBeside([{ method: 'eth_getLogs', tookMs: 10 }], { warmUp: 32 })).reply))
  })

  t.test('is due to the node otherwise, and free', async t => {
    for (const [what, { reply }] of [
      ['alone', await replyBeside([])],
      ['after others', await replyBeside([], { warmUp: 32 })],
      ['beside another class', await replyBeside([{ method: 'eth_getBalance', tookMs: 10 }])],
      ['beside one that was slow too', await replyBeside([{ method: 'eth_getLogs', tookMs: 500 }], { warmUp: 32 })],
    ] as const) {
      t.match(reply, { kind: 'timeout', fault: 'upstream', error: { code: -32005 } }, what)
      t.notOk(isCharged(reply), what)
    }
    const { reply } = await replyBeside([{ method: 'eth_getBalance', tookMs: 10 }], { method: 'eth_getBalance' })
    t.match(reply, { kind: 'unavailable', fault: 'upstream' }, 'a class that callers cannot make heavy')
  })
})

t.test('a call of an account that gets a single attempt', async t => {
  const single = { account: { ...fakeAccount, plan: { ...fakeAccount.plan, forwarding: true }, singleAttempt: true as const } }
  const failing = { a: () => failure('a'), b: () => fakeResult('b'), p: () => fakeResult('p') }

  t.test('is sent to one node, not to the next or the partner', async t => {
    const { request, requested } = openFailover(t, failing, { partner })
    t.match(await request(getLogs(single)), { kind: 'unavailable', fault: 'upstream' })
    t.same(requested, ['a'])
    t.equal(valueOrErrorCode(await request(getLogs())), 'b')
  })

  t.test('is sent to the partner alone, if no own node can be asked', async t => {
    const { request, requested, requestMany } = openFailover(
      t,
      { ...failing, a: () => failure('a', { unresponsive: true }) },
      { partner, upstreams: [node('a')] },
    )
    await requestMany(1)
    requested.length = 0
    t.equal(valueOrErrorCode(await request(getLogs(single))), 'p')
    t.same(requested, ['p'])
    const other = { account: { ...single.account, plan: { ...single.account.plan, forwarding: false } } }
    t.equal(valueOrErrorCode(await request(getLogs(other))), -32002, 'where the plan qualifies')
  })

  t.test('is sent to the next node if the first was not requested', async t => {
    const { request, requested } = openFailover(t, { ...failing, a: () => refuse('unavailable', { source: 'gateway', upstream: 'a' }) })
    t.equal(valueOrErrorCode(await request(getLogs(single))), 'b')
    t.same(requested, ['a', 'b'])
  })
})
