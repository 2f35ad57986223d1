import t from '../support/tap.ts'
import { Backoff, createSemaphore, openOnce, singleFlight, thenMaybe, TimeoutError, withTimeout } from '../../src/util/async.ts'
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

t.test('a backoff doubles up to its maximum, and starts over after a reset', t => {
  const backoff = new Backoff({ minMs: 100, maxMs: 350 })
  t.same([backoff.next(), backoff.next(), backoff.next(), backoff.next()], [100, 200, 350, 350])
  backoff.reset()
  t.equal(backoff.next(), 100)
  t.end()
})

t.test('thenMaybe is synchronous for a known value', async t => {
  t.equal(
    thenMaybe(1, value => value + 1),
    2,
  )
  const later = thenMaybe(Promise.resolve(1), value => value + 1)
  t.ok(later instanceof Promise)
  t.equal(await later, 2)
})

t.test('a semaphore runs so many at once, in order of arrival, and goes on after a failure', async t => {
  const semaphore = createSemaphore(2)
  const started: number[] = []
  const finish: (() => void)[] = []
  const run = (id: number) => {
    started.push(id)
    return new Promise<void>((resolve, reject) => finish.push(id === 0 ? () => reject(new Error('failed')) : resolve))
  }
  const runs = [0, 1, 2, 3].map(id => semaphore(() => run(id)).catch(() => id))
  t.same(started, [0, 1])
  finish[0]?.()
  t.equal(await runs[0], 0)
  await Promise.resolve()
  t.same(started, [0, 1, 2])
  finish[1]?.()
  finish[2]?.()
  await Promise.all([runs[1], runs[2]])
  await Promise.resolve()
  finish[3]?.()
  await runs[3]
  t.same(started, [0, 1, 2, 3])
})

t.test('of what waits for a semaphore the lowest rank begins first, and the first of a rank', async t => {
  const semaphore = createSemaphore(1)
  const started: string[] = []
  const run = (name: string, rank?: number) => semaphore(async () => void started.push(name), rank)
  await Promise.all([run('a', 9), run('b', 2), run('c', 1), run('d', 2), run('e'), run('f', 1), run('g')])
  t.equal(started.join(''), 'aegcfbd')
})

t.test('what opens is opened once, and again after a failure', async t => {
  const failures = [new Error('too many open files')]
  let opens = 0
  const open = openOnce(async () => {
    const failure = failures.pop()
    if (failure !== undefined) throw failure
    return (opens += 1)
  })
  const first = [open(), open()]
  for (const opening of first) await t.rejects(opening, { message: 'too many open files' })
  t.same(await Promise.all([open(), open()]), [1, 1])
  t.equal(await open(), 1)
})

t.test('what was opened is known without opening it', async t => {
  const opens: (() => void)[] = []
  const open = openOnce(
    (name: string) =>
      new Promise<string>((resolve, reject) => opens.push(() => (name === '' ? reject(new Error('unnamed')) : resolve(name)))),
  )
  t.equal(await open.opened(), undefined)
  const failing = t.rejects(open(''), { message: 'unnamed' })
  const opened = open.opened()
  opens[0]?.()
  await failing
  t.equal(await opened, undefined, 'what fails is nothing to close')
  void open('store')
  const opening = open.opened()
  opens[1]?.()
  t.equal(await opening, 'store', 'what is being opened is waited for')
})

t.test('calls during a flight share it, and the next call starts a new one', async t => {
  let runs = 0
  const shared = singleFlight(async () => (runs += 1))
  t.same(await Promise.all([shared(), shared()]), [1, 1])
  t.equal(await shared(), 2)
})
