import { once } from 'node:events'
import { openSync, writeSync } from 'node:fs'
import { parseStoreAddress } from '../../../src/config/addresses.ts'
import { systemClock } from '../../../src/services/clock.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import { openStore } from '../../../src/store/open-store.ts'
import { TestLog } from '../../support/fakes.ts'
import { accountWith } from './ledger-test-cluster.ts'

/** What a worker does, as the test tells it. */
export interface WorkerTask {
  /** The store, as `lmdb:` or `redis:`. */
  readonly storeUrl: string
  /** The file where it writes down what it served: a kill cannot undo that. */
  readonly servedFile: string
  readonly limit: number
  /** Charges for so many callers at once when it is told so, and says what became of them. Otherwise it charges as fast as it can. */
  readonly callers?: number
  /** Having served so much it says so, and waits to be told to go on. */
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
  const told = once(process, 'message')
  process.send?.('stopped')
  return told
}

const charge = async (): Promise<void> => {
  for (let i = 0; !isStopping; i += 1) {
    const cost = costs[i % costs.length] ?? 0
    const asked = ledger.charge(account, cost)
    const verdict = asked instanceof Promise ? await asked : asked
    if (verdict.kind === 'charged') await recordServed(cost)
    else if (verdict.kind === 'exhausted' && cost === Math.min(...costs)) return
    // A call reaches the ledger once per turn of the loop at most, as it would from a socket.
    if (i % 50 === 0) await new Promise(resolve => setImmediate(resolve))
  }
}

const chargeForAll = async (length: number): Promise<void> => {
  await once(process, 'message')
  const verdicts = await Promise.all(Array.from({ length }, () => ledger.charge(account, 80)))
  process.send?.(verdicts.map(({ kind }) => kind))
}

process.on('SIGTERM', () => {
  isStopping = true
})
// Without the test there is nobody to spend for; and a store that is gone would be waited for for ever.
process.once('disconnect', () => process.exit())
await ledger.start()
process.send?.('started')
await (callers === undefined ? charge() : chargeForAll(callers))
await ledger.stop()
await store.close()
process.disconnect()
