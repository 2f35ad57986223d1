import { setImmediate as turn } from 'node:timers/promises'
import t from '../support/tap.ts'
import { CircuitBreaker } from '../../src/services/circuit-breaker.ts'
import type { CallOutcome, CircuitBreakerOptions } from '../../src/services/circuit-breaker.ts'
import { TestClock } from '../support/fakes.ts'

const openMs = 5000

const createBreaker = (t: Tap, over: Partial<CircuitBreakerOptions> = {}) => {
  const clock = new TestClock()
  const states: string[] = []
  let [probes, isHealthy] = [0, false]
  const breaker = new CircuitBreaker({
    clock,
    errorPercent: 40,
    minCalls: 20,
    probeBackoff: { minMs: openMs, maxMs: openMs },
    probe: async () => ((probes += 1), isHealthy),
    onStateChange: state => states.push(state),
    ...over,
  })
  t.teardown(() => breaker.stop())
  return {
    breaker,
    states,
    /** Time passes, and probes end that are due. */
    async advance(ms: number) {
      clock.advance(ms)
      await turn()
    },
    /** Calls end with these outcomes, one after another. */
    async record(...outcomes: CallOutcome[]) {
      for (const outcome of outcomes) {
        breaker.record(outcome)
        await turn()
      }
    },
    probes: () => probes,
    setHealthy(value: boolean) {
      isHealthy = value
    },
  }
}
type Tap = Pick<typeof t, 'teardown'>

/** So many outcomes, of which the first and then each `every`th is a failure. */
const failing = (count: number, every: number): CallOutcome[] =>
  Array.from({ length: count }, (_, i) => (i % every === 0 ? 'failure' : 'success'))

t.test('opens after so many failures in a row, and at once', async t => {
  const { breaker, states } = createBreaker(t)
  for (let i = 0; i < 4; i++) breaker.record('failure')
  breaker.record('success')
  for (let i = 0; i < 4; i++) breaker.record('failure')
  t.notOk(breaker.isOpen)
  breaker.record('failure')
  t.ok(breaker.isOpen)
  t.same(states, ['open'])
})

t.test('opens when more than the percentage of at least so many calls failed', async t => {
  const few = createBreaker(t)
  await few.record(...failing(18, 2))
  t.notOk(few.breaker.isOpen, 'too few calls')
  await few.record('failure', 'success', 'failure')
  t.ok(few.breaker.isOpen)
  const rare = createBreaker(t)
  await rare.record(...failing(300, 3))
  t.notOk(rare.breaker.isOpen, 'a third')
})

t.test('takes the percentage of the calls since the first failure, however many succeeded before', async t => {
  const { breaker, record } = createBreaker(t)
  await record(...Array<CallOutcome>(1000).fill('success'), ...failing(22, 2))
  t.ok(breaker.isOpen)
})

t.test('counts the calls of the last 10 s only', async t => {
  const { breaker, record, advance } = createBreaker(t)
  await record(...failing(18, 2))
  await advance(10_000)
  await record(...failing(18, 2))
  t.notOk(breaker.isOpen)
  await advance(8_000)
  await record(...failing(4, 2))
  t.ok(breaker.isOpen)
})

t.test('does not count ignored outcomes', async t => {
  const { breaker, record } = createBreaker(t)
  for (let i = 0; i < 100; i++) breaker.record('ignored')
  await record('failure')
  t.notOk(breaker.isOpen)
})

t.test('is closed by a successful probe alone, never by a call', async t => {
  const { breaker, states, record, advance, probes, setHealthy } = createBreaker(t)
  await record(...failing(5, 1))
  await record(...Array<CallOutcome>(100).fill('success'))
  await advance(openMs - 1)
  t.ok(breaker.isOpen)
  t.equal(probes(), 0)
  await advance(1)
  t.ok(breaker.isOpen, 'the probe failed')
  t.equal(probes(), 1)
  setHealthy(true)
  await advance(openMs)
  t.notOk(breaker.isOpen)
  t.same(states, ['open', 'closed'], 'each change is reported once')
  await record(...failing(4, 1))
  t.notOk(breaker.isOpen, 'failures in a row count anew')
})

t.test('takes a probe that throws for one that failed', async t => {
  const { breaker, advance } = createBreaker(t, { probe: () => Promise.reject(new Error('x')) })
  breaker.open()
  await advance(openMs)
  t.ok(breaker.isOpen)
})

t.test('opens on open(), once', async t => {
  const { breaker, states, advance, probes } = createBreaker(t)
  breaker.open()
  breaker.open()
  t.same(states, ['open'])
  await advance(openMs)
  t.equal(probes(), 1)
})

t.test('probes after growing delays, which a success resets', async t => {
  const { breaker, record, advance, probes, setHealthy } = createBreaker(t, { probeBackoff: { minMs: 250, maxMs: 1000 } })
  const expectProbesAfter = async (...delaysMs: number[]) => {
    for (const ms of delaysMs) {
      const before = probes()
      await advance(ms - 1)
      t.equal(probes(), before, `none within ${ms} ms`)
      await advance(1)
      t.equal(probes(), before + 1)
    }
  }
  breaker.open()
  await expectProbesAfter(250, 500)
  setHealthy(true)
  await expectProbesAfter(1000)
  t.notOk(breaker.isOpen)
  breaker.open()
  await expectProbesAfter(1000)
  await record('success')
  breaker.open()
  await expectProbesAfter(250)
})

t.test('may begin open, can be probed at once, and stays open after stop()', async t => {
  const { breaker, states, advance, probes, setHealthy } = createBreaker(t, { initialState: 'open' })
  t.ok(breaker.isOpen)
  await advance(openMs)
  t.equal(probes(), 1)
  setHealthy(true)
  await Promise.all([breaker.probe(), breaker.probe()])
  t.equal(probes(), 2, 'one probe at a time')
  t.notOk(breaker.isOpen)
  await breaker.probe()
  t.equal(probes(), 2, 'a closed breaker is not probed')
  t.same(states, ['closed'])
  breaker.stop()
  t.ok(breaker.isOpen)
  await breaker.probe()
  await advance(100_000)
  t.equal(probes(), 2)
})

t.test('stops while a probe is in flight', async t => {
  let answer = (_isHealthy: boolean): void => undefined
  const { breaker, states, advance } = createBreaker(t, {
    probe: () =>
      new Promise(resolve => {
        answer = resolve
      }),
  })
  breaker.open()
  await advance(openMs)
  breaker.stop()
  answer(true)
  await turn()
  t.ok(breaker.isOpen)
  t.same(states, ['open'])
})
