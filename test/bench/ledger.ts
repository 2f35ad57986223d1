import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { Account } from '../../src/call.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger.ts'
import { openLog } from '../../src/services/log.ts'
import { openStore } from '../../src/store/open.ts'
import type { LedgerStore } from '../../src/store/store.ts'
import type { Outcome } from './cases.ts'
import { figure } from './figures.ts'
import { spreadOf } from './stats.ts'

/** What the ledger adds to a call of an active account, on the embedded store; with the least and the largest plan. */
export const ledgerCost = async (): Promise<Outcome> => {
  const [core, custom] = [await spend(3_000_000), await spend(1_000_000_000)]
  return {
    rows: [],
    figures: [
      figure('99 of 100 calls: the ledger adds', 'µs', spreadOf([core.p99, custom.p99]), 50),
      figure('questions to the store per call, 3 million credits a day', '%', spreadOf([core.asked]), 1),
      figure('questions to the store per call, 1,000 million credits a day', '%', spreadOf([custom.asked]), 0.2),
    ],
  }
}

const calls = 12_000
/** Calls of one account that come at once every `gap` ms: 4,000 a second. */
const together = 20
const gap = 5
const cost = 80

const spend = async (dailyCredits: number): Promise<{ readonly p99: number; readonly asked: number }> => {
  const dir = await mkdtemp(join(tmpdir(), 'tollgate-bench-'))
  const store = await openStore({ kind: 'lmdb', path: dir }, systemClock)
  let asks = 0
  const counted: LedgerStore = {
    ...store,
    ask: ask =>
      store.ask(ask).finally(() => {
        asks += 1
      }),
  }
  const ledger = openLedger(counted, systemClock, { log: openLog('silent') })
  await ledger.start()
  const account: Account = { id: 'acc_1', name: 'acc_1', plan: { name: 'plan', dailyCredits, forwarding: false } }
  const times: number[] = []
  for (let i = 0; i < calls; i += 1) {
    const before = systemClock.monotonic()
    const asked = ledger.charge(account, cost)
    const verdict = asked instanceof Promise ? await asked : asked
    times.push(systemClock.monotonic() - before)
    if (verdict.kind !== 'charged') throw new Error(`a call was not charged: ${verdict.kind}`)
    if (i % together === 0) await pause(gap)
  }
  await ledger.stop()
  await store.close()
  await rm(dir, { recursive: true, force: true })
  times.sort((one, other) => one - other)
  return { p99: (times[Math.floor(calls * 0.99)] ?? NaN) * 1_000, asked: (100 * asks) / calls }
}
