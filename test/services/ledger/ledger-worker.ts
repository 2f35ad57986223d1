import { once } from 'node:events'
import { openSync, writeSync } from 'node:fs'
import { parseStoreAddress } from '../../../src/config/store-address.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { openStore } from '../../../src/store/open-store.ts'
import { TestLog } from '../../../src/testing/test-log.ts'
import { accountWith } from './ledger-test-cluster.ts'

/** The work of a forked process. */
export interface WorkerTask {
  /** `lmdb:` or `redis:`. */
  readonly storeUrl: string
  /** The file that has the served credits: a kill cannot undo a write. */
  readonly servedFile: string
  readonly limit: number
  /** At a message, charges for so many callers at once, and sends the kinds of the results. Without it, charges as fast as it can. */
  readonly callers?: number
  /** Served credits at which the worker sends a message, and waits for one. */
  readonly pauseAtServed?: readonly number[]
}

const { storeUrl, servedFile, limit, callers, pauseAtServed = [] } = JSON.parse(process.argv[2] ?? '') as WorkerTask // written by forkWorker() of the test
const costs = [19, 80, 80, 255]
const account = accountWith(limit)
const file = openSync(servedFile, 'w')
const address = parseStoreAddress(storeUrl, '')
if (address === undefined) throw new Error('no store was named')
const store = await openStore(address, systemClock)
const ledger = openLedger(store, systemClock, { log: new TestLog() })
let served = 0
let isStopping = false
const remainingPauses = [...pauseAtServed]

const recordServed = (cost: number): Promise<unknown> | undefined => {
  served += cost
  writeSync(file, `${served}`.padEnd(20), 0)
  if (remainingPauses[0] === undefined || served < remainingPauses[0]) return undefined
  remainingPauses.shift()
  const resumed = once(process, 'message')
  process.send?.('paused')
  return resumed
}

const charge = async (): Promise<void> => {
  for (let i = 0; !isStopping; i += 1) {
    const cost = costs[i % costs.length] ?? 0
    const charging = ledger.charge(account, cost)
    const result = charging instanceof Promise ? await charging : charging
    if (result.kind === 'charged') await recordServed(cost)
    else if (result.kind === 'exhausted' && cost === Math.min(...costs)) return
    // Calls from sockets come in several turns of the event loop too.
    if (i % 50 === 0) await new Promise(resolve => setImmediate(resolve))
  }
}

const chargeForAll = async (length: number): Promise<void> => {
  await once(process, 'message')
  const results = await Promise.all(Array.from({ length }, () => ledger.charge(account, 80)))
  process.send?.(results.map(({ kind }) => kind))
}

process.on('SIGTERM', () => {
  isStopping = true
})
// The test has ended: its store may be gone, and a wait for it would not end.
process.once('disconnect', () => process.exit())
await ledger.start()
process.send?.('started')
await (callers === undefined ? charge() : chargeForAll(callers))
await ledger.stop()
await store.close()
process.disconnect()
