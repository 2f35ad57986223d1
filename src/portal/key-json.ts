import { formatRate } from '../config/formats.ts'
import { keyRefusal } from '../services/accounts/api-key.ts'
import type { KeyRow } from '../store/store.ts'
import { isoTime, isoTimeOrNull } from '../util/dates.ts'
import { countOrNull, listOf, text, textOrNull, time, timeOrNull } from './openapi.ts'

/** A key as developers and the operator see it. Lists without an entry restrict nothing. */
export const keyJson = (row: KeyRow, now: number) => {
  const { id, name = '', hint, networks = [], methods = [], origins = [], ips = [], dailyCredits = null, rate, burst = null } = row
  return {
    ...{ id, name, hint, networks, methods, origins, ips, dailyCredits },
    rate: rate === undefined ? null : formatRate(rate),
    burst,
    state: keyRefusal(row, now) ?? ('active' as const),
    created: isoTime(row.created),
    expires: isoTimeOrNull(row.expires),
    suspended: isoTimeOrNull(row.suspended),
    revoked: isoTimeOrNull(row.revoked),
  }
}

export type KeyJson = ReturnType<typeof keyJson>

/** What keyJson() returns. */
export const keyProperties = {
  id: text,
  name: text,
  hint: { type: 'string', description: 'The last characters of the key.' },
  networks: listOf(text),
  methods: listOf(text),
  origins: listOf(text),
  ips: listOf(text),
  dailyCredits: countOrNull,
  rate: textOrNull,
  burst: countOrNull,
  state: { type: 'string', enum: ['active', 'suspended', 'expired', 'revoked'] },
  created: time,
  expires: timeOrNull,
  suspended: timeOrNull,
  revoked: timeOrNull,
} as const
