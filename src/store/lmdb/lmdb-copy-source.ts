import type { Database, RootDatabase } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import type { LeaseRecord } from '../lease-accounting.ts'
import type { CopySource, KeyRow } from '../store.ts'
import { isProcessAlive } from './lmdb-ledger.ts'
import type { ProcessHeartbeat } from './lmdb-ledger.ts'
import { toUsageCount } from './lmdb-usage.ts'
import type { UsageRowKey, UsageRowValue } from './lmdb-usage.ts'

export const lmdbCopySource = (root: RootDatabase, clock: Clock): CopySource => {
  const keys: Database<KeyRow, string> = root.openDB({ name: 'keys' })
  const hashesByAccount: Database<string, [string, number, string]> = root.openDB({ name: 'account-keys' })
  const records: Database<LeaseRecord, [number, string, string]> = root.openDB({ name: 'entries' })
  const heartbeats: Database<ProcessHeartbeat, string> = root.openDB({ name: 'processes' })
  const usage: Database<UsageRowValue, UsageRowKey> = root.openDB({ name: 'usage' })
  return {
    countLiveProcesses: () => [...heartbeats.getRange()].filter(({ value }) => isProcessAlive(value, clock.now())).length,
    hashedKeys: account =>
      [...hashesByAccount.getRange({ start: [account], end: [account, Infinity] })].flatMap(({ value: hash }) => {
        const key = keys.get(hash)
        return key === undefined ? [] : [{ hash, key }]
      }),
    leaseRecords: (account, day) =>
      new Map(
        Array.from(records.getRange({ start: [day, account], end: [day, account, '\uffff'] }), ({ key: [, , process], value }) => [
          process,
          value,
        ]),
      ),
    async *allUsageCounts() {
      for (const { key, value } of usage.getRange()) yield toUsageCount(key, value)
    },
  }
}
