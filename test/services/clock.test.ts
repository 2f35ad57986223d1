import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from '../support/tap.ts'
import { systemClock } from '../../src/services/clock.ts'
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
