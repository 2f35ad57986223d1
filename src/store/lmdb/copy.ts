import type { Database, RootDatabase } from 'lmdb'
import type { Clock } from '../../services/clock.ts'
import type { Entry } from '../lease.ts'
import type { CopySource, KeyRow } from '../store.ts'
import { isAlive } from './ledger.ts'
import type { Life } from './ledger.ts'
import { countOf } from './usage.ts'
import type { Row, Sum } from './usage.ts'

export const copiesOf = (root: RootDatabase, clock: Clock): CopySource => {
  const keys: Database<KeyRow, string> = root.openDB({ name: 'keys' })
  const hashesOf: Database<string, [string, number, string]> = root.openDB({ name: 'account-keys' })
  const entries: Database<Entry, [number, string, string]> = root.openDB({ name: 'entries' })
  const lives: Database<Life, string> = root.openDB({ name: 'processes' })
  const sums: Database<Sum, Row> = root.openDB({ name: 'usage' })
  return {
    processes: () => [...lives.getRange()].filter(({ value }) => isAlive(value, clock.now())).length,
    hashedKeys: account =>
      [...hashesOf.getRange({ start: [account], end: [account, Infinity] })].flatMap(({ value: hash }) => {
        const key = keys.get(hash)
        return key === undefined ? [] : [{ hash, key }]
      }),
    entries: (account, day) =>
      new Map(
        Array.from(entries.getRange({ start: [day, account], end: [day, account, '\uffff'] }), ({ key: [, , process], value }) => [
          process,
          value,
        ]),
      ),
    async *counts() {
      for (const { key, value } of sums.getRange()) yield countOf(key, value)
    },
  }
}
