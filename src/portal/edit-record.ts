import type { RecordKind, RecordStore, StoredRecord } from '../store/record-store.ts'
import type { Json } from '../util/json.ts'

/**
 * Gives a record the value that `edit` makes of it as it is now: of several edits at once, on several gateways too, each begins with what the
 * one before has written. False when there is no such record, or `edit` returns undefined.
 */
export const editRecord = async (
  store: RecordStore,
  kind: RecordKind,
  id: string,
  edit: (found: StoredRecord) => Json | undefined,
): Promise<boolean> => {
  for (;;) {
    const found = await store.findRecord(kind, id)
    const value = found && edit(found)
    if (found === undefined || value === undefined) return false
    if (await store.replaceRecord(kind, found, value)) return true
  }
}
