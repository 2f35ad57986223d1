import type { CopySource } from '../store.ts'
import { hashedKeys } from './accounts.ts'
import type { Calendar } from './calendar.ts'
import type { Connection } from './connection.ts'
import { keys } from './layout.ts'
import { entryOf } from './ledger.ts'
import { pairsOf } from './reply.ts'
import * as scripts from './scripts.ts'
import { countsOf, hourOf } from './usage.ts'

export const copiesOf = (redis: Connection, { words }: Calendar): CopySource => ({
  async processes() {
    const [, , ...living] = (await redis.run(scripts.lives, [keys.processes, keys.latestDay], words())) as unknown[]
    return living.length
  },
  hashedKeys: account => hashedKeys(redis, account),
  async entries(account, day) {
    const row = pairsOf(await redis.send('HGETALL', keys.day(account, day)))
    return new Map(row.filter(([name]) => name !== 'leased').map(([name, value]) => [name.slice(2), entryOf(value)]))
  },
  async *counts() {
    for (const found of (await redis.send('ZRANGE', keys.hours, '0', '-1')) as string[]) {
      const { account, hour } = hourOf(found)
      yield* countsOf(account, hour, await redis.send('HGETALL', keys.usage(account, hour)))
    }
  },
})
