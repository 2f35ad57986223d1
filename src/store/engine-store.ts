import type { Clock } from '../services/clock.ts'
import { openAccountStore } from './accounts.ts'
import type { Engine } from './engine.ts'
import { dropLedger, openLedgerStore } from './ledger.ts'
import { LostWrites } from './lost-writes.ts'
import { openRecordStore } from './records.ts'
import { openRequestLogStore } from './request-log.ts'
import type { Store } from './store.ts'
import { StoreDays } from './store-days.ts'
import { allCounts, openUsageStore, readAccountUse } from './usage.ts'

/** The store above an engine. `clock` is that of the gateway. */
export const openEngineStore = (engine: Engine, clock: Pick<Clock, 'now' | 'monotonic'>): Store => {
  const days = new StoreDays(engine, clock)
  const losses = new LostWrites()
  return {
    warnings: engine.warnings,
    ...openAccountStore(engine, id => dropLedger(engine, id)),
    ...openLedgerStore(engine, days, losses),
    ...openUsageStore(engine, days, losses),
    ...openRecordStore(engine, clock, days),
    ...openRequestLogStore(engine, days),
    usedShares: async () => (await engine.usedShares?.()) ?? {},
    countLiveProcesses: async () => (await days.live()).processes.size,
    accountUse: (accounts, of) => readAccountUse(engine, accounts, of),
    allUsageCounts: hours => allCounts(engine, days, hours),
    close: () => engine.close(),
  }
}
