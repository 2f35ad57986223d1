import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Account } from '../../src/plugin/call.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import { openLog } from '../../src/services/log.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { LedgerStore } from '../../src/store/store.ts'
import type { CaseResult } from './cases.ts'
import { createFigure } from './figures.ts'
import { spreadOf } from './stats.ts'

/** What the ledger adds to a call of an active account, on the embedded store; with the least and the largest plan. */
export const ledgerCost = async (): Promise<CaseResult> => {
  const [smallPlan, largePlan] = [await measureCharges(3_000_000), await measureCharges(1_000_000_000)]
  return {
    rows: [],
    figures: [
      createFigure('99 of 100 calls: the ledger adds', 'µs', spreadOf([smallPlan.p99, largePlan.p99]), 50),
      createFigure('questions to the store per call, 3 million credits a day', '%', spreadOf([smallPlan.pendingCharge]), 1),
      createFigure('questions to the store per call, 1,000 million credits a day', '%', spreadOf([largePlan.pendingCharge]), 0.2),
    ],
  }
}

const callCount = 12_000
/** Calls of one account that come at once every `gap` ms: 4,000 a second. */
const callsPerBurst = 20
const burstIntervalMs = 5
const creditsPerCall = 80

const measureCharges = async (dailyCredits: number): Promise<{ readonly p99: number; readonly pendingCharge: number }> => {
  const dir = await mkdtemp(join(tmpdir(), 'tollgate-bench-'))
  const store = await openStore({ kind: 'lmdb', path: dir }, systemClock)
  let storeRequests = 0
  const counted: LedgerStore = {
    ...store,
    requestLease: ask =>
      store.requestLease(ask).finally(() => {
        storeRequests += 1
      }),
  }
  const ledger = openLedger(counted, systemClock, { log: openLog('silent') })
  await ledger.start()
  const account: Account = { id: 'acc_1', name: 'acc_1', plan: { name: 'plan', dailyCredits, forwarding: false } }
  const times: number[] = []
  for (let i = 0; i < callCount; i += 1) {
    const before = systemClock.monotonic()
    const asked = ledger.charge(account, creditsPerCall)
    const result = asked instanceof Promise ? await asked : asked
    times.push(systemClock.monotonic() - before)
    if (result.kind !== 'charged') throw new Error(`a call was not charged: ${result.kind}`)
    if (i % callsPerBurst === 0) await pause(burstIntervalMs)
  }
  await ledger.stop()
  await store.close()
  await rm(dir, { recursive: true, force: true })
  times.sort((one, other) => one - other)
  return { p99: (times[Math.floor(callCount * 0.99)] ?? NaN) * 1_000, pendingCharge: (100 * storeRequests) / callCount }
}
