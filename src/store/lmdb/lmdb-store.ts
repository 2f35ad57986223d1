import { isDeepStrictEqual } from 'node:util'
import type { Clock } from '../../services/clock.ts'
import { createSemaphore } from '../../util/async.ts'
import { hoursPerDay } from '../../util/dates.ts'
import { unexpired } from '../record-store.ts'
import type { RecordKind, RecordStore, StoredRecord } from '../record-store.ts'
import { StoreError } from '../store.ts'
import type { Copyable, Store } from '../store.ts'
import { prepareDataFolder } from './data-folder.ts'
import { FolderWatch } from './folder-watch.ts'
import { hashedKeys, lmdbAccountStore } from './lmdb-accounts.ts'
import { openEnvironment } from './lmdb-environment.ts'
import type { LmdbEnvironment } from './lmdb-environment.ts'
import { isProcessAlive, lmdbLedgerStore, openLmdbDayClock, readDayRecords } from './lmdb-ledger.ts'
import { openMetaTable, openTables, maxKeySuffix } from './lmdb-tables.ts'
import type { LmdbTables } from './lmdb-tables.ts'
import { lmdbUsageStore, toUsageCount } from './lmdb-usage.ts'
import { toStoreError, Transactions } from './transactions.ts'

/**
 * The embedded store: a folder that several processes of one machine open at once. Reads are synchronous; writes run on
 * their own thread and resolve when they are on disk.
 */
export const openLmdbStore = (path: string, clock: Clock): Promise<Store> => oneAtATime(() => openFolder(path, clock))

/** The folder is examined while no other open() of this process is under way: assertNotLocked() says why. */
const oneAtATime = createSemaphore(1)

const openFolder = async (path: string, clock: Clock): Promise<Store> => {
  await prepareDataFolder(path)
  const environment = openEnvironment(path)
  const watch = new FolderWatch(path, clock)
  const transactions = new Transactions(environment, path, watch)
  const tables = (environment.tables ??= await createTables(environment, transactions, path).catch(async (error: unknown) => {
    await transactions.close()
    throw await toStoreError(error, path)
  }))
  const dayClock = openLmdbDayClock(tables, clock)
  const store: Store = {
    warnings: [],
    ...lmdbAccountStore(tables, transactions),
    ...lmdbLedgerStore(tables, transactions, clock, dayClock),
    ...lmdbUsageStore(tables, transactions, dayClock),
    ...copyableLmdb(tables, transactions, clock),
    ...lmdbRecordStore(tables, transactions, clock, dayClock),
    close: () => transactions.close(),
  }
  return withWatchedReads(store, watch)
}

const unwatchedMethods: ReadonlySet<string> = new Set<keyof Store>(['subscribe', 'close'])

/**
 * Reads, too, fail while the files are gone: to read on from them would hide keys that were revoked in the store that took their place. A read
 * throws; a write rejects in Transactions.run().
 */
const withWatchedReads = (store: Store, watch: FolderWatch): Store => {
  const guarded = Object.entries(store).map(([name, member]: [string, unknown]) => {
    if (typeof member !== 'function' || unwatchedMethods.has(name)) return [name, member]
    // The methods differ in their parameters, which are passed on as they are.
    const method = member as (...args: readonly unknown[]) => unknown
    const guardedMethod = (...args: readonly unknown[]): unknown => {
      const result = method(...args)
      if (!(result instanceof Promise)) watch.assertPresent()
      return result
    }
    return [name, guardedMethod]
  })
  return Object.fromEntries(guarded) as Store // as it was
}

/** Incremented when an older Tollgate would misread the rows. */
const schemaVersion = 1

/** Tables that an older Tollgate did not have are created, which needs room on the disk. A folder of another version gets none. */
const createTables = async ({ root }: LmdbEnvironment, transactions: Transactions, path: string): Promise<LmdbTables> => {
  await checkVersion(openMetaTable(root), transactions, path)
  return openTables(root)
}

const checkVersion = async (meta: LmdbTables['meta'], transactions: Transactions, path: string): Promise<void> => {
  const found =
    meta.get('version') ??
    (await transactions.run(() => {
      const first = meta.get('version')
      if (first === undefined) meta.put('version', schemaVersion)
      return first ?? schemaVersion
    }))
  if (found === schemaVersion) return
  throw new StoreError(
    `the store in ${path} has version ${found}, and this Tollgate reads version ${schemaVersion}: ` +
      'run the Tollgate that wrote it, or let `store` in gateway.yaml name another folder',
  )
}

const copyableLmdb = (tables: LmdbTables, transactions: Transactions, clock: Clock): Copyable => ({
  countLiveProcesses: () => [...tables.heartbeats.getRange()].filter(({ value }) => isProcessAlive(value, clock.now())).length,
  hashedKeys: account => hashedKeys(tables, account),
  dayRecords: (account, day) => readDayRecords(tables, account, day),
  restoreReportedUse: (account, day, process, { credits, isFinal }) =>
    transactions.run(() => {
      if (tables.lastReports.get(process) === undefined) {
        tables.lastReports.put(process, { seq: 0, hour: (day + 1) * hoursPerDay, isFinal })
      }
      tables.reportedUse.put([day, account, process], credits)
    }),
  async *allUsageCounts(hours) {
    // A range over the first member of the key, which stands for all keys that begin with it.
    const range = hours && { start: [hours.from] as never, end: [hours.to] as never }
    for (const { key, value } of tables.usage.getRange(range)) yield toUsageCount(key, value)
  },
})

/** A record that has expired by the clock is not found. It is dropped when it has expired by the store's time too, which follows no far jump of the clock. */
const lmdbRecordStore = (
  tables: LmdbTables,
  transactions: Transactions,
  clock: Clock,
  { currentDay }: ReturnType<typeof openLmdbDayClock>,
): RecordStore => {
  const { records, recordsByAccount, recordsByExpiry } = tables
  const find = (kind: RecordKind, id: string) => unexpired(records.get([kind, id]), clock.now())
  const remove = (kind: RecordKind, { id, account, expires }: StoredRecord): void => {
    records.remove([kind, id])
    recordsByAccount.remove([kind, account, id])
    recordsByExpiry.remove([expires, kind, id])
  }
  const put = (kind: RecordKind, record: StoredRecord): void => {
    const replaced = records.get([kind, record.id])
    const expired = expiredKeys(tables, Math.min(clock.now(), currentDay().now))
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
    replaceRecord: (kind, found, value, expires = found.expires) =>
      transactions.run(() => {
        if (!isDeepStrictEqual(find(kind, found.id), found)) return false
        put(kind, { ...found, value, expires })
        return true
      }),
    findRecord: find,
    takeRecord: (kind, id) =>
      transactions.run(() => {
        const found = records.get([kind, id])
        if (found === undefined) return undefined
        remove(kind, found)
        return unexpired(found, clock.now())
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
