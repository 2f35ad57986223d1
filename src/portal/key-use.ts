import type { KeyRow } from '../store/store.ts'
import { dayMs, hourMs, isoTimeOrNull } from '../util/dates.ts'
import { countOrNull, timeOrNull } from './response-schemas.ts'
import type { PortalServices } from './portal-services.ts'
import type { UsageQueries } from './queries/usage-queries.ts'

/** How far back a key's last use is looked for. */
const lastUseDays = 7

/** What keyUseJson() returns. */
export const keyUseProperties = {
  usedToday: { ...countOrNull, description: 'Credits of today of a key with a daily limit; null for others.' },
  lastUsed: { ...timeOrNull, description: 'The hour of its last call, of the last 7 days.' },
} as const

export const keyUseJson = async ({ store }: Pick<PortalServices, 'store'>, row: KeyRow, lastUsed?: number) => ({
  usedToday: row.dailyCredits === undefined ? null : (await store.keyUse(row.id)).used,
  lastUsed: isoTimeOrNull(lastUsed),
})

interface LastUseServices extends Pick<PortalServices, 'clock'> {
  readonly queries: Pick<UsageQueries, 'lastUses'>
}

/** The last hour in which each key of the account was used. */
export const readLastUses = async ({ queries, clock }: LastUseServices, account: string): Promise<ReadonlyMap<string, number>> => {
  const toDay = Math.floor(clock.now() / dayMs)
  const lastUses = await queries.lastUses({ account, fromDay: toDay - lastUseDays, toDay })
  return new Map(lastUses.map(([key, hour]) => [key, hour * hourMs]))
}
