import t from 'tap'
import { TimeoutError, withTimeout } from '../../src/util/with-timeout.ts'
import { TestClock } from '../support/fakes.ts'
import { drainEventLoop } from '../services/ledger/ledger-test-cluster.ts'

/** What an answer came to, so far. */
const observe = (answer: Promise<unknown>): { outcome: unknown } => {
  const seen: { outcome: unknown } = { outcome: 'nothing yet' }
  answer.then(
    value => {
      seen.outcome = value
    },
    (error: unknown) => {
      seen.outcome = error
    },
  )
  return seen
}

t.test('an answer is waited for during a second', async t => {
  const clock = new TestClock()
  const silent = observe(withTimeout(clock, 1_000, new Promise(() => {})))
  clock.advance(999)
  await drainEventLoop()
  t.equal(silent.outcome, 'nothing yet')
  clock.advance(1)
  await drainEventLoop()
  t.match(silent.outcome, new TimeoutError(1_000))
  t.equal(new TimeoutError(1_000).message, 'no answer for 1000 ms')
})

t.test('what answers in time, or fails, is passed on, and no timer stays behind', async t => {
  const timers = new Set<object>()
  const clock = new TestClock()
  const counted = {
    ...clock,
    after(ms: number, run: () => void) {
      const timer = clock.after(ms, run)
      timers.add(timer)
      return {
        cancel: () => {
          timers.delete(timer)
        },
      }
    },
  }
  t.equal(await withTimeout(counted, 1_000, Promise.resolve(7)), 7)
  await t.rejects(withTimeout(counted, 1_000, Promise.reject(new Error('refused'))), { message: 'refused' })
  await drainEventLoop()
  t.equal(timers.size, 0)
})

t.test('a process that stands still loses a tenth of its patience each time, however long that is', async t => {
  const clock = new TestClock()
  const silent = observe(withTimeout(clock, 1_000, new Promise(() => {})))
  for (let i = 0; i < 9; i += 1) {
    clock.stall(60_000)
    await drainEventLoop()
    t.equal(silent.outcome, 'nothing yet')
  }
  clock.stall(60_000)
  await drainEventLoop()
  t.match(silent.outcome, new TimeoutError(1_000))
})
