import { setImmediate as turn } from 'node:timers/promises'
import t from '../../support/tap.ts'
import { activityOf } from '../../../src/plugin/internal.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import { fakeResult, valueOrErrorCode } from '../../support/fakes.ts'
import { failure, getLogs, getReceipt, openFailover } from './failover-fixture.ts'
import type { Responder } from './failover-fixture.ts'

// Two nodes in simulated time: a node answers after 2 to 9 ms, or a multiple, and a call that hangs is answered never.

interface Load {
  readonly callsPerSecond: number
  readonly call?: typeof getReceipt
  /** Whether call `n` to node `a` hangs, so many ms after the first call. */
  hangs(n: number, ms: number): boolean
  /** Whether a probe of `a` is answered. */
  readonly answersProbes?: (ms: number) => boolean
  readonly seconds?: number
  /** Of the latencies of both nodes; probes are as fast as ever. */
  readonly slowness?: number
}

/** The latency of a node is known after 100 calls. */
const minWarmUpCalls = 150

/** Latencies in ms, sorted, and the number of attempts, of the calls after a warm-up. */
const simulate = async ({ callsPerSecond, call = getReceipt, hangs, answersProbes, seconds = 2, slowness = 1 }: Load) => {
  const methodClass = call === getReceipt ? 'light' : 'logs'
  const answers = answersProbes ?? (ms => !hangs(0, ms))
  let begunAt = Infinity
  let callsToA = 0
  const elapsed = () => opened.clock.monotonic() - begunAt
  const answerSoon = (name: string, n: number): Promise<Reply> =>
    new Promise(resolve => void opened.clock.after(slowness * (2 + (n % 8)), () => resolve(fakeResult(name))))
  const respond: Responder = ({ context: { target }, signal }) => {
    const n = (callsToA += 1)
    if (elapsed() < 0 || Number.isNaN(elapsed()) || !hangs(n, elapsed())) return answerSoon('a', n)
    const activity = activityOf(target)
    const probe = opened.clock.after(activity.probeAfterMs(methodClass), () => void activity.isAlive(opened.services))
    return new Promise(resolve =>
      signal?.addEventListener('abort', () => {
        probe.cancel()
        resolve(refuse('unavailable', { source: 'node', fault: 'caller' }))
      }),
    )
  }
  let callsToB = 0
  const opened = openFailover(
    t,
    { a: respond, b: () => answerSoon('b', (callsToB += 1)) },
    { hedge: true, breaker: { openFor: 1000 } },
    {
      respondToProbe: timeoutMs =>
        new Promise(resolve => {
          if (answers(elapsed())) opened.clock.after(2, () => resolve(fakeResult('0x1')))
          else opened.clock.after(timeoutMs, () => resolve(failure('a')))
        }),
    },
  )
  const latencies: number[] = []
  let wrong = 0
  const send = async () => {
    const sentAt = opened.clock.monotonic()
    const value = valueOrErrorCode(await opened.request(call()))
    latencies.push(opened.clock.monotonic() - sentAt)
    if (value !== 'a' && value !== 'b') wrong += 1
  }
  const sendFor = async (ms: number) => {
    for (let sent = 0, i = 0; i < ms; i++) {
      for (; sent < ((i + 1) * callsPerSecond) / 1000; sent++) void send()
      await opened.advance(1)
    }
  }
  await sendFor(Math.max(1000, (1000 * minWarmUpCalls) / callsPerSecond))
  for (let i = 0; i < 20; i++) await opened.advance(1)
  latencies.length = 0
  opened.requested.length = 0
  begunAt = opened.clock.monotonic()
  await sendFor(1000 * seconds)
  for (let i = 0; i < 1000 && latencies.length < callsPerSecond * seconds; i++) await opened.advance(1)
  await turn()
  latencies.sort((a, b) => a - b)
  const calls = callsPerSecond * seconds
  return {
    wrong,
    answered: latencies.length / calls,
    worst: latencies.at(-1) ?? Infinity,
    p99: latencies[Math.ceil(0.99 * calls) - 1] ?? Infinity,
    attempts: opened.requested.length / calls,
    shareOfA: opened.countOf('a') / calls,
  }
}

const fromSecond = (_n: number, ms: number): boolean => ms >= 500

t.test('a node that hangs is noticed by no caller', async t => {
  for (const callsPerSecond of [20, 100, 1000]) {
    const { wrong, answered, worst, p99, attempts } = await simulate({ callsPerSecond, hangs: fromSecond })
    t.same([wrong, answered], [0, 1], `${callsPerSecond} calls/s`)
    t.ok(worst <= 100 && p99 <= 50, `${callsPerSecond} calls/s: 99 % within ${p99} ms, all within ${worst} ms`)
    t.ok(attempts <= 1.2, `${callsPerSecond} calls/s: ${attempts} attempts a call`)
  }
})

t.test('calls that are not hedged leave a node that hangs within 600 ms, as long as they usually take less than 100', async t => {
  for (const callsPerSecond of [20, 100])
    for (const slowness of [1, 10]) {
      const { wrong, answered, worst } = await simulate({ callsPerSecond, slowness, hangs: fromSecond, call: () => getLogs() })
      t.same([wrong, answered], [0, 1])
      t.ok(worst <= 600, `${callsPerSecond} calls/s, ${slowness} times as slow: ${worst} ms`)
    }
})

t.test('a node of which every second call hangs, though it answers probes, is noticed by few callers', async t => {
  const { wrong, answered, worst, p99 } = await simulate({
    callsPerSecond: 1000,
    hangs: (n, ms) => ms >= 500 && n % 2 === 0,
    answersProbes: () => true,
  })
  t.same([wrong, answered], [0, 1])
  t.ok(worst <= 1000 && p99 <= 100, `99 % within ${p99} ms, all within ${worst} ms`)
})

t.test('a call that hangs on a node that answers the others leaves it, also when too few hang for a suspicion', async t => {
  for (const callsPerSecond of [100, 1000])
    for (const hanging of [10, 30]) {
      const { wrong, answered, worst, attempts } = await simulate({
        callsPerSecond,
        hangs: (n, ms) => ms >= 500 && ms < 4900 && (n * 7919) % 100 < hanging,
        answersProbes: () => true,
        seconds: 5,
      })
      t.same([wrong, answered], [0, 1], `${callsPerSecond} calls/s, ${hanging} % of them hang`)
      t.ok(worst <= 1100, `${callsPerSecond} calls/s, ${hanging} % of them hang: all within ${worst} ms`)
      t.ok(attempts <= 1.5, `${attempts} attempts a call`)
    }
})

t.test('a node that comes and goes every 3 s is noticed by no caller, and gets fewer calls each time', async t => {
  const { wrong, answered, worst, shareOfA } = await simulate({
    callsPerSecond: 100,
    hangs: (_n, ms) => ms % 6000 >= 3000,
    seconds: 30,
  })
  t.same([wrong, answered], [0, 1])
  t.ok(worst <= 150, `${worst} ms`)
  t.ok(shareOfA <= 0.35, `${shareOfA} of the calls`)
})

t.test('a node that is well gets all calls, once each', async t => {
  const { wrong, answered, attempts, shareOfA } = await simulate({ callsPerSecond: 1000, hangs: () => false })
  t.same([wrong, answered, attempts, shareOfA], [0, 1, 1, 1])
})
