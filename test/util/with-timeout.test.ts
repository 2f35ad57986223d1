import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { systemClock } from '../../src/services/clock.ts'
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

t.test("the system's clock runs no timer before what has arrived by then is read", async t => {
  const arrived = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(
    `
    const { parentPort, workerData } = require('node:worker_threads')
    parentPort.once('message', () => {
      parentPort.postMessage('the answer')
      Atomics.store(workerData, 0, 1)
      Atomics.notify(workerData, 0)
    })`,
    { eval: true, workerData: arrived },
  )
  t.teardown(() => worker.terminate())
  await once(worker, 'online')
  const heard: string[] = []
  worker.once('message', answer => heard.push(answer))
  // Timers that fall due together run one after the other: when the first ends the answer is there, and nobody has read it.
  setTimeout(() => {
    worker.postMessage('the question')
    Atomics.wait(arrived, 0, 0)
  }, 5)
  const late = new Promise<void>(resolve =>
    systemClock.after(5, () => {
      heard.push('late')
      resolve()
    }),
  )
  blockEventLoop(10)
  await late
  t.same(heard, ['the answer', 'late'])
})

t.test("a timer of the system's clock can be cancelled while what has arrived is read", async t => {
  let runs = 0
  const timer = systemClock.after(5, () => {
    runs += 1
  })
  const cancelled = new Promise<void>(resolve =>
    setTimeout(() => {
      timer.cancel()
      resolve()
    }, 5),
  )
  blockEventLoop(10)
  await cancelled
  await drainEventLoop()
  t.equal(runs, 0)
})

/** Whatever falls due meanwhile does so together. */
const blockEventLoop = (ms: number): void => {
  const start = systemClock.monotonic()
  while (systemClock.monotonic() - start < ms);
}

t.test('a time longer than timers can be set for is not over at once', async t => {
  let isOver = false
  const timer = systemClock.after(2 ** 32, () => {
    isOver = true
  })
  await new Promise(resolve => setTimeout(resolve, 20))
  timer.cancel()
  t.notOk(isOver)
})
