import type { RecordKind, RecordStore, StoredRecord } from '../store/record-store.ts'

type FilterRecordKind = Extract<RecordKind, 'filter' | 'filter-owner'>

/** Records in the store: the filters of callers, and the processes that keep some. As RecordStore. */
export interface FilterRecords {
  put(kind: FilterRecordKind, record: StoredRecord): Promise<void>
  find(kind: FilterRecordKind, id: string): Promise<StoredRecord | undefined>
  /** Of several processes at once, one gets it. */
  take(kind: FilterRecordKind, id: string): Promise<StoredRecord | undefined>
}

/** Without the rest of the store. */
export const openFilterRecords = (store: Pick<RecordStore, 'putRecord' | 'findRecord' | 'takeRecord'>): FilterRecords => ({
  put: (kind, record) => store.putRecord(kind, record),
  find: async (kind, id) => store.findRecord(kind, id),
  take: (kind, id) => store.takeRecord(kind, id),
})
