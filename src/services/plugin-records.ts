import { createHash } from 'node:crypto'
import type { RecordStore } from '../store/record-store.ts'
import type { Json } from '../util/json.ts'
import type { Clock } from './clock.ts'

/** JSON values that one plugin of one network keeps in the store, for all gateways on it: they outlive a restart. */
export interface PluginRecords {
  /** Undefined where there is none, or it has expired. Rejects while the store is unreachable. */
  find(name: string): Promise<Json | undefined>
  /** Replaces what has the name. Rejects while the store is unreachable, and for a value whose JSON text is longer than 4,096 characters. */
  put(name: string, value: Json, expiresInMs: number): Promise<void>
}

interface PluginRecordsOptions {
  readonly store: Pick<RecordStore, 'putRecord' | 'findRecord'>
  readonly clock: Pick<Clock, 'now'>
}

const kind = 'plugin'
const maxValueChars = 4_096

/** The records of the plugin in each step of a network. */
export const openPluginRecords = ({ store, clock }: PluginRecordsOptions) => ({
  of(network: string, step: string): PluginRecords {
    // Names may be of any length, and have any characters.
    const idOf = (name: string): string =>
      createHash('sha256')
        .update(JSON.stringify([network, step, name]))
        .digest('hex')
    return {
      find: async name => (await store.findRecord(kind, idOf(name)))?.value,
      async put(name, value, expiresInMs) {
        if (JSON.stringify(value).length > maxValueChars) throw new RangeError(`a record has at most ${maxValueChars} characters of JSON`)
        await store.putRecord(kind, { id: idOf(name), account: '', value, expires: clock.now() + expiresInMs })
      },
    }
  },
})
