import type { Clock } from '../../services/clock.ts'
import type { RecordKind, RecordStore, StoredRecord } from '../record-store.ts'
import { maxKeySuffix } from './lmdb-tables.ts'
import type { LmdbTables } from './lmdb-tables.ts'
import type { Transactions } from './transactions.ts'

export const lmdbRecordStore = (tables: LmdbTables, transactions: Transactions, clock: Clock): RecordStore => {
  const { records, recordsByAccount, recordsByExpiry } = tables
  const find = (kind: RecordKind, id: string): StoredRecord | undefined => {
    const found = records.get([kind, id])
    return found !== undefined && found.expires > clock.now() ? found : undefined
  }
  const remove = (kind: RecordKind, { id, account, expires }: StoredRecord): void => {
    records.remove([kind, id])
    recordsByAccount.remove([kind, account, id])
    recordsByExpiry.remove([expires, kind, id])
  }
  const put = (kind: RecordKind, record: StoredRecord): void => {
    const replaced = records.get([kind, record.id])
    const expired = expiredKeys(tables, clock.now())
    if (replaced !== undefined) remove(kind, replaced)
    for (const [, kindOfExpired, id] of expired) {
      const row = records.get([kindOfExpired, id])
      if (row !== undefined && id !== record.id) remove(kindOfExpired, row)
    }
    records.put([kind, record.id], record)
    recordsByAccount.put([kind, record.account, record.id], true)
    recordsByExpiry.put([record.expires, kind, record.id], true)
  }

  return {
    putRecord: (kind, record) => transactions.run(() => put(kind, record)),
    addRecord: (kind, record) =>
      transactions.run(() => {
        if (find(kind, record.id) !== undefined) return false
        put(kind, record)
        return true
      }),
    findRecord: find,
    takeRecord: (kind, id) =>
      transactions.run(() => {
        const found = records.get([kind, id])
        if (found === undefined) return undefined
        remove(kind, found)
        return found.expires > clock.now() ? found : undefined
      }),
    records: (kind, account) =>
      [...recordsByAccount.getKeys({ start: [kind, account, ''], end: [kind, account, maxKeySuffix] })].flatMap(
        ([, , id]) => find(kind, id) ?? [],
      ),
  }
}

/** Dropped with each write in one transaction, during which other processes cannot write. */
const maxExpiredPerWrite = 50

const expiredKeys = ({ recordsByExpiry }: LmdbTables, now: number) => [
  ...recordsByExpiry.getKeys({ end: [now] as never, limit: maxExpiredPerWrite }),
]
