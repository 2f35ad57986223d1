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
import { spreadOf } from './figures.ts'

/** What the ledger adds to a call of an active account, with the embedded store; for the smallest and the largest plan. */
export const ledgerCost = async (): Promise<CaseResult> => {
  const [smallPlan, largePlan] = [await measureCharges(3_000_000), await measureCharges(1_000_000_000)]
  return {
    rows: [],
    figures: [
      createFigure('p99 that the ledger adds to a call', 'µs', spreadOf([smallPlan.p99, largePlan.p99]), 50),
      createFigure('store requests per call, 3 million credits a day', '%', spreadOf([smallPlan.storeRequestPercent]), 1),
      createFigure('store requests per call, 1,000 million credits a day', '%', spreadOf([largePlan.storeRequestPercent]), 0.2),
    ],
  }
}

const callCount = 12_000
/** Concurrent calls of one account every `burstIntervalMs`: 4,000 a second. */
const callsPerBurst = 20
const burstIntervalMs = 5
const creditsPerCall = 80

const measureCharges = async (dailyCredits: number): Promise<{ readonly p99: number; readonly storeRequestPercent: number }> => {
  const dir = await mkdtemp(join(tmpdir(), 'tollgate-bench-'))
  const store = await openStore({ kind: 'lmdb', path: dir }, systemClock)
  let storeRequests = 0
  const countingStore: LedgerStore = {
    ...store,
    requestLease: request =>
      store.requestLease(request).finally(() => {
        storeRequests += 1
      }),
  }
  const ledger = openLedger(countingStore, systemClock, { log: openLog('silent') })
  await ledger.start()
  const account: Account = { id: 'acc_1', name: 'acc_1', plan: { name: 'plan', dailyCredits, forwarding: false } }
  const timesMs: number[] = []
  for (let i = 0; i < callCount; i += 1) {
    const startMs = systemClock.monotonic()
    const pending = ledger.charge(account, creditsPerCall)
    const result = pending instanceof Promise ? await pending : pending
    timesMs.push(systemClock.monotonic() - startMs)
    if (result.kind !== 'charged') throw new Error(`a call was not charged: ${result.kind}`)
    if (i % callsPerBurst === 0) await pause(burstIntervalMs)
  }
  await ledger.stop()
  await store.close()
  await rm(dir, { recursive: true, force: true })
  timesMs.sort((one, other) => one - other)
  return { p99: (timesMs[Math.floor(callCount * 0.99)] ?? NaN) * 1_000, storeRequestPercent: (100 * storeRequests) / callCount }
}
