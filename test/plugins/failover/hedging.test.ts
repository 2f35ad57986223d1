import { setImmediate as turn } from 'node:timers/promises'
import t from '../../support/tap.ts'
import type { Test } from 'tap'
import { lateAfterMs } from '../../../plugins/failover/late-calls.ts'
import { HedgeBudget } from '../../../plugins/failover/retries.ts'
import type { Call, Cancellation, Signal } from '../../../src/plugin/call.ts'
import { LatencyTracker, activityOf } from '../../../src/plugin/internal.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import { TestClock, fakeAccount, fakeCall, fakeOrigin, fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { createLongResult } from '../../support/long-result.ts'
import { failure, getLogs, getReceipt, node, openFailover, partner, uncounted } from './failover-fixture.ts'
import type { Responder } from './failover-fixture.ts'

t.test('hedging', async t => {
  /** A node `a` that was fast for so many calls, and is slow from now on. */
  const openWithSlowNode = async (t: Pick<Test, 'teardown'>, responders: Record<string, Responder>, calls = 200, options: object = {}) => {
    let isSlow = false
    const ends: Signal[] = []
    const respondSlowly: Responder = call => {
      if (!isSlow) return fakeResult('a')
      const signal = call.signal ?? call.origin.signal
      ends.push(signal)
      return new Promise(resolve =>
        signal.addEventListener('abort', () => resolve(refuse('unavailable', { source: 'node', fault: 'caller' }))),
      )
    }
    const opened = openFailover(t, { a: respondSlowly, b: () => fakeResult('b'), ...responders }, { hedge: true, ...options })
    await opened.requestMany(calls, getReceipt)
    isSlow = true
    opened.requested.length = 0
    return { ...opened, ends }
  }
  const afterTwoTurns = async (reply: Reply): Promise<Reply> => {
    await turn()
    await turn()
    return reply
  }

  t.test('requests the next node too, and cancels the slow request', async t => {
    const { request, requested, clock, ends } = await openWithSlowNode(t, {})
    const reply = request(getReceipt())
    clock.advance(20)
    t.equal(valueOrErrorCode(await reply), 'b')
    t.same(requested, ['a', 'b'])
    t.equal(ends[0]?.aborted, true)
  })

  t.test('waits for the first node when the second fails', async t => {
    const { request, clock } = await openWithSlowNode(t, { a: () => afterTwoTurns(fakeResult('a')), b: () => failure('b') })
    const reply = request(getReceipt())
    clock.advance(20)
    t.equal(valueOrErrorCode(await reply), 'a')
  })

  t.test('requests no other node for a call that a bug of a plugin below has ended', async t => {
    let isBroken = false
    const { request, requested, clock } = await openWithSlowNode(t, {
      a: async () => {
        if (isBroken) throw new Error('bug')
        return fakeResult('a')
      },
    })
    isBroken = true
    await t.rejects(request(getReceipt()), { message: 'bug' })
    clock.advance(60_000)
    await turn()
    t.same(requested, ['a'])
  })

  t.test('returns the error that is about the request rather than about a node, when both fail', async t => {
    const requestError: Failure = { ...refuse('params', { source: 'node', upstream: 'a' }), kind: 'node', retryElsewhere: true }
    let isFailing = false
    const { request, requested, clock } = await openWithSlowNode(t, {
      a: () => (isFailing ? turn(requestError) : fakeResult('a')),
      b: () => afterTwoTurns(failure('b')),
    })
    isFailing = true
    const reply = request(getReceipt())
    clock.advance(20)
    t.equal(valueOrErrorCode(await reply), -32602)
    t.same(requested, ['a', 'b'])
  })

  t.test('counts what the second node lacks against that node alone', async t => {
    const lacking: Failure = {
      ...refuse('params', { source: 'node', upstream: 'b', category: 'blockNotFound', retryElsewhere: true }),
      kind: 'node',
    }
    const getBalance = () => fakeCall('eth_getBalance', ['0x1', 'latest'])
    let isFailing = false
    const { request, requested, clock, requestMany } = openFailover(
      t,
      {
        a: () => (isFailing ? afterTwoTurns(failure('a', { retryElsewhere: true })) : fakeResult('a')),
        b: () => lacking,
        c: () => fakeResult('c'),
      },
      { upstreams: ['a', 'b', 'c'].map(name => node(name)), hedge: true },
    )
    await requestMany(200, getBalance)
    for (let i = 0; i < 6; i++) {
      // A node that answers nothing any more would be suspect.
      isFailing = false
      await request(getBalance())
      isFailing = true
      requested.length = 0
      const reply = request(getBalance())
      clock.advance(20)
      t.equal(valueOrErrorCode(await reply), 'c')
    }
    t.same(requested, ['a', 'c'])
  })

  t.test('counts what the first node lacks against it, where the second one has it', async t => {
    let isLacking = false
    const lacks: Responder = ({ context }) =>
      isLacking && context.request.method === 'eth_getTransactionReceipt' ? turn(uncounted('a')) : fakeResult('a')
    const { request, requested, clock, requestMany } = openFailover(
      t,
      { a: lacks, b: () => afterTwoTurns(fakeResult('b')) },
      { hedge: true },
    )
    await requestMany(300, getReceipt)
    isLacking = true
    for (let i = 0; i < 5; i++) {
      const reply = request(getReceipt())
      clock.advance(20)
      t.equal(valueOrErrorCode(await reply), 'b')
      // A node that answers nothing any more would be suspect.
      await requestMany(1, () => fakeCall('eth_getBalance', ['0x1', 'latest']))
    }
    requested.length = 0
    await request(getReceipt())
    t.same(requested, ['b'])
  })

  t.test('knows what both nodes have refused: no other node may accept it', async t => {
    const refusal = (upstream: string): Failure => ({
      ...refuse('params', { source: 'node', upstream, category: 'rangeTooWide', retryElsewhere: true }),
      kind: 'node',
    })
    let isFailing = false
    const { request, requested, clock } = await openWithSlowNode(t, {
      a: () => (isFailing ? afterTwoTurns(refusal('a')) : fakeResult('a')),
      b: () => turn(refusal('b')),
    })
    isFailing = true
    const reply = request(getReceipt())
    clock.advance(20)
    t.equal(((await reply) as Failure).retryElsewhere, undefined)
    t.same(requested, ['a', 'b'])
  })

  t.test('frees the result that comes too late, and that which is not returned', async t => {
    const slow = createLongResult(1 << 20)
    const odd = createLongResult(1 << 20)
    let isSlow = false
    const { request, clock, requestMany } = openFailover(
      t,
      {
        a: call =>
          isSlow
            ? new Promise(resolve => call.signal?.addEventListener('abort', () => resolve({ source: 'node', result: slow.result })))
            : fakeResult('a'),
        b: () => (isSlow ? { source: 'node', result: odd.result, unexpectedType: true } : fakeResult('b')),
        c: () => fakeResult('c'),
      },
      { upstreams: ['a', 'b', 'c'].map(name => node(name)), hedge: true },
    )
    await requestMany(200, getReceipt)
    isSlow = true
    const origin = fakeOrigin()
    const reply = request({ ...getReceipt(), origin })
    clock.advance(20)
    await turn()
    ;(origin.signal as Cancellation).abort()
    await reply
    await turn()
    t.ok(odd.memory.isFreed)
    t.notOk(slow.memory.isFreed, 'it is what is returned')
  })

  t.test('is paid by a caller who leaves while the first node has not been sent the call', async t => {
    let isSlow = false
    const leave = ({ signal }: Call, source: 'gateway' | 'node', turns: number): Promise<Reply> =>
      new Promise(resolve =>
        signal?.addEventListener('abort', async () => {
          for (let i = 0; i < turns; i++) await turn()
          resolve(refuse('unavailable', { source, fault: 'caller', cause: 'client disconnected' }))
        }),
      )
    const { request, requested, clock, requestMany } = openFailover(
      t,
      { a: call => (isSlow ? leave(call, 'gateway', 0) : fakeResult('a')), b: call => leave(call, 'node', 2) },
      { hedge: true },
    )
    await requestMany(200, getReceipt)
    isSlow = true
    requested.length = 0
    const origin = fakeOrigin()
    const reply = request({ ...getReceipt(), origin })
    clock.advance(20)
    await turn()
    t.same(requested, ['a', 'b'])
    ;(origin.signal as Cancellation).abort()
    t.match(await reply, { source: 'node', fault: 'caller' })
  })

  t.test('is not for methods that are not idempotent', async t => {
    const send = () => fakeCall('eth_sendRawTransaction', ['0x01'])
    const { request, requested, clock, requestMany } = await openWithSlowNode(t, { a: () => turn(fakeResult('a')) })
    await requestMany(200, send)
    requested.length = 0
    const reply = request(send())
    clock.advance(60_000)
    t.equal(valueOrErrorCode(await reply), 'a')
    t.same(requested, ['a'])
  })

  t.test('is for methods whose class is hedged, and only where it is on', async t => {
    const sent = async (call: () => ReturnType<typeof fakeCall>, hedge: boolean) => {
      let isSlow = false
      const { request, requestMany, requested, clock } = openFailover(
        t,
        { a: () => (isSlow ? new Promise<Reply>(() => undefined) : fakeResult('a')), b: () => fakeResult('b') },
        { hedge },
      )
      await requestMany(200, call)
      isSlow = true
      requested.length = 0
      void request(call())
      clock.advance(4_900)
      await turn()
      return requested
    }
    t.same(await sent(getReceipt, true), ['a', 'b'])
    t.same(await sent(getReceipt, false), ['a'])
    t.same(await sent(getLogs, true), ['a'])
    t.same(await sent(() => fakeCall('eth_call'), true), ['a'])
  })

  t.test('of a heavy call is for a node that is silent for 5 s, which then comes last for the method', async t => {
    for (const call of [getLogs, () => fakeCall('eth_call')]) {
      const silent: Responder = ({ signal }) =>
        new Promise(resolve => signal?.addEventListener('abort', () => resolve(refuse('unavailable', { source: 'node', fault: 'caller' }))))
      const { request, requested, clock } = openFailover(t, { a: silent, b: () => fakeResult('b', { upstream: 'b' }) }, { hedge: true })
      const calls = Array.from({ length: 40 }, () => request(call()))
      clock.advance(4_900)
      await turn()
      t.ok(requested.every(name => name === 'a'))
      clock.advance(100)
      t.ok((await Promise.all(calls)).every(reply => valueOrErrorCode(reply) === 'b'))
      requested.length = 0
      t.equal(valueOrErrorCode(await request(call())), 'b')
      t.same(requested, ['b'])
    }
  })

  t.test('of a heavy call is not for one that takes long while its node answers others as fast as usual', async t => {
    let isSlow = false
    const { request, requestMany, requested, clock } = openFailover(
      t,
      { a: () => (isSlow ? new Promise<Reply>(() => undefined) : fakeResult('a')), b: () => fakeResult('b') },
      { hedge: true },
    )
    await requestMany(200)
    isSlow = true
    void request(getLogs())
    clock.advance(1_000)
    isSlow = false
    await request(getLogs())
    clock.advance(8_000)
    await turn()
    t.notOk(requested.includes('b'))
  })

  t.test('of eth_getLogs ends with the 10 s that all nodes have together', async t => {
    const silent: Responder = ({ signal }) =>
      new Promise(resolve => signal?.addEventListener('abort', () => resolve(refuse('unavailable', { source: 'node', fault: 'caller' }))))
    let endFirst: ((reply: Reply) => void) | undefined
    const first: Responder = () => new Promise(resolve => (endFirst = resolve))
    const { request, requested, clock } = openFailover(t, { a: first, b: silent }, { hedge: true })
    const reply = request(getLogs())
    clock.advance(5_000)
    await turn()
    t.same(requested, ['a', 'b'])
    clock.advance(5_000)
    endFirst?.(refuse('timeout', { source: 'node', upstream: 'a', fault: 'upstream', retryElsewhere: true }))
    t.match(await reply, { error: { message: 'query timeout exceeded' }, fault: 'upstream' })
  })

  t.test('is never for the partner, nor for a node of weight 0', async t => {
    for (const options of [
      { upstreams: [node('a')], partner: { ...partner, methods: ['eth_getTransactionReceipt'] } },
      { upstreams: [node('a', { weight: 1 }), node('b', { weight: 0 })] },
    ]) {
      const { request, requested, clock } = await openWithSlowNode(t, { p: () => fakeResult('p') }, 200, options)
      const account = { ...fakeAccount, plan: { ...fakeAccount.plan, forwarding: true } }
      void request(getReceipt({ account }))
      clock.advance(5000)
      await turn()
      t.same(requested, ['a'])
    }
  })

  t.test('begins when the call is late: after 250 ms until 100 calls are known', async t => {
    const lateAfter = (...latenciesMs: readonly (readonly [count: number, latencyMs: number])[]) => {
      const tracker = new LatencyTracker()
      for (const [count, latencyMs] of latenciesMs) for (let i = 0; i < count; i++) tracker.record(0, latencyMs)
      return Math.round(lateAfterMs(tracker))
    }
    t.equal(lateAfter([99, 1]), 250)
    t.equal(lateAfter([100, 1]), 20, 'no sooner')
    const even = lateAfter([320, 50])
    t.ok(even >= 147 && even <= 153, `three times the median: ${even}`)
    const skewed = lateAfter([280, 50], [40, 1000])
    t.ok(skewed >= 980 && skewed <= 1020, `the 95th percentile: ${skewed}`)
  })

  t.test('learns from the calls that it cancels when they were late, but not from those of a failing node', async t => {
    const tracker = new LatencyTracker()
    const p95 = () => Math.round(tracker.quantiles?.p95 ?? 0)
    for (let i = 0; i < 320; i++) tracker.record(0, 10)
    for (let i = 0; i < 80; i++) tracker.recordCanceled(0, 1)
    t.equal(p95(), 10)
    for (let i = 0; i < 80; i++) tracker.recordCanceled(0, 50)
    t.equal(p95(), 50)
    const { request, clock, targetOf } = await openWithSlowNode(t, {}, 100)
    for (let i = 0; i < 150; i++) {
      const reply = request(getReceipt())
      clock.advance(400)
      await reply
      await turn()
    }
    const { p95: learned = 0 } = activityOf(targetOf('a')).latencyOf('light').quantiles ?? {}
    t.ok(learned < 1, `${learned}`)
  })

  t.test('has a budget of its own: 2 % of the calls of a minute, and 200 more while a node is failing', async t => {
    const clock = new TestClock()
    const budget = new HedgeBudget(clock)
    const exhaust = (isFailing: boolean) => {
      let hedges = 0
      while (budget.reserve(isFailing)) hedges += 1
      return hedges
    }
    t.equal(exhaust(false), 4)
    for (let i = 0; i < 10_000; i++) budget.recordCall(clock.monotonic())
    t.equal(exhaust(false), 196)
    t.equal(exhaust(true), 200)
    t.equal(exhaust(true), 0)
    clock.advance(70_000)
    t.equal(exhaust(false), 4)
    t.equal(exhaust(true), 200)
  })

  t.test('takes nothing of the budget of retries, and no caller is refused', async t => {
    let isDown = false
    const { request, countOf, clock, requestMany } = openFailover(
      t,
      {
        a: call =>
          isDown && call.context.request.method !== 'eth_call'
            ? new Promise<Reply>(() => undefined)
            : isDown
              ? uncounted('a')
              : fakeResult('a'),
        b: () => fakeResult('b'),
      },
      { hedge: true },
    )
    await requestMany(200, getReceipt)
    isDown = true
    const late = Array.from({ length: 150 }, () => request(getReceipt()))
    clock.advance(20)
    t.ok((await Promise.all(late)).every(reply => valueOrErrorCode(reply) === 'b'))
    const retried = await Promise.all(Array.from({ length: 60 }, () => request(fakeCall('eth_call'))))
    t.ok(retried.every(reply => valueOrErrorCode(reply) === 'b'))
    t.equal(countOf('b'), 210)
  })

  t.test('costs less than 3 % of the calls when all is well, whatever the latencies are', async t => {
    for (const latencyOf of [
      (i: number) => 5 + (i % 10),
      (i: number) => 20 + 0.4 * ((i * 7919) % 200),
      (i: number) => (i % 20 === 0 ? 900 : 30),
    ]) {
      let calls = 0
      const answerLater: Responder = async () => {
        const latencyMs = latencyOf((calls += 1))
        await new Promise<void>(resolve => clock.after(latencyMs, resolve))
        return fakeResult('x')
      }
      const { request, requested, clock } = openFailover(t, { a: answerLater, b: answerLater }, { hedge: true })
      const replies: Promise<Reply>[] = []
      for (let i = 0; i < 1500; i++) {
        replies.push(request(getReceipt()))
        clock.advance(10)
        await turn()
      }
      clock.advance(1000)
      await turn()
      await Promise.all(replies)
      t.ok(requested.length <= 1.03 * 1500, `${requested.length} attempts for 1500 calls`)
    }
  })

  const single = { account: { ...fakeAccount, singleAttempt: true as const } }
  t.test('is not for accounts that get a single attempt', async t => {
    const { request, requested, clock } = openFailover(
      t,
      { a: () => (requested.length > 32 ? new Promise<Reply>(() => {}) : fakeResult('a')), b: () => fakeResult('b') },
      { hedge: true },
    )
    for (let i = 0; i < 32; i++) await request(getReceipt())
    void request(getReceipt(single))
    await turn()
    clock.advance(5000)
    await turn()
    t.equal(requested.length, 33)
  })
})
