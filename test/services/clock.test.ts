import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from '../support/tap.ts'
import { systemClock } from '../../src/services/clock.ts'
import { everyMs, startRounds } from '../../src/services/rounds.ts'
import { TestClock } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'
import { drainEventLoop } from './ledger/ledger-test-cluster.ts'

/** Timers that fall due meanwhile run together. */
const blockEventLoop = (ms: number): void => {
  const start = systemClock.monotonic()
  while (systemClock.monotonic() - start < ms);
}

t.test('a timer runs after the I/O that is pending when it falls due, a repeated one too', async t => {
  for (const method of ['after', 'every'] as const) {
    const hasResponded = new Int32Array(new SharedArrayBuffer(4))
    const worker = new Worker(
      `
      const { parentPort, workerData } = require('node:worker_threads')
      parentPort.once('message', () => {
        parentPort.postMessage('the response')
        Atomics.store(workerData, 0, 1)
        Atomics.notify(workerData, 0)
      })`,
      { eval: true, workerData: hasResponded },
    )
    t.teardown(() => worker.terminate())
    await once(worker, 'online')
    const events: string[] = []
    worker.once('message', response => events.push(response))
    // Timers that fall due together run one after the other: when the first ends, the response has arrived and is not read yet.
    setTimeout(() => {
      worker.postMessage('the request')
      Atomics.wait(hasResponded, 0, 0)
    }, 5)
    const timer = new Promise<void>(resolve => {
      const { cancel } = systemClock[method](5, () => {
        events.push('timer')
        cancel()
        resolve()
      })
    })
    blockEventLoop(10)
    await timer
    t.same(events, ['the response', 'timer'], method)
  }
})

t.test('a timer can be canceled by the I/O that is pending when it falls due', async t => {
  let runs = 0
  const timer = systemClock.after(5, () => {
    runs += 1
  })
  const canceled = new Promise<void>(resolve =>
    setTimeout(() => {
      timer.cancel()
      resolve()
    }, 5),
  )
  blockEventLoop(10)
  await canceled
  await drainEventLoop()
  t.equal(runs, 0)
})

t.test('a timer that is longer than Node.js allows does not run at once, nor does a repeated one', async t => {
  for (const method of ['after', 'every'] as const) {
    let hasRun = false
    const timer = systemClock[method](2 ** 32, () => {
      hasRun = true
    })
    await new Promise(resolve => setTimeout(resolve, 20))
    timer.cancel()
    t.notOk(hasRun, method)
  }
})

t.test('rounds run one after the other; the first of several failures is reported, and none of a stop', async t => {
  const clock = new TestClock()
  const reported: unknown[] = []
  let [begun, fails] = [0, true]
  const rounds = startRounds({
    clock,
    async run() {
      begun += 1
      if (fails) throw new Error(`round ${begun}`)
    },
    restMs: () => 100,
    reportFailure: error => reported.push(error),
  })
  const runRound = async (number: number) => waitUntil(() => clock.advance(100) ?? begun === number)
  await runRound(1)
  await runRound(2)
  fails = false
  await runRound(3)
  fails = true
  await runRound(4)
  await waitUntil(() => reported.length === 2)
  t.match(reported, [{ message: 'round 1' }, { message: 'round 4' }])
  await rounds.stop()
  clock.advance(1_000)
  t.equal(begun, 4)
})

t.test('rounds begin at equal intervals, from the first on; one that takes longer is followed at once', async t => {
  const clock = new TestClock()
  const begunAt: number[] = []
  const lengths = [100, 50, 2_500, 100]
  const start = clock.monotonic()
  const rounds = startRounds({
    clock,
    async run() {
      begunAt.push(clock.monotonic() - start)
      await new Promise<void>(resolve => clock.after(lengths.shift() ?? 0, resolve))
    },
    firstMs: 1_000,
    restMs: everyMs(1_000),
    reportFailure: () => t.fail(),
  })
  for (let ms = 0; ms < 7_000; ms += 10) {
    await new Promise(setImmediate)
    clock.advance(10)
  }
  await rounds.stop()
  t.same(begunAt.slice(0, 5), [1_000, 2_000, 3_000, 5_500, 6_500])
})
