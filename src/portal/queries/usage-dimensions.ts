import { successOutcome } from '../../store/usage-store.ts'
import type { UsageRow } from '../../store/usage-store.ts'

/** What calls can be grouped by, and filtered by. */
export const dimensions = ['method', 'network', 'key', 'outcome'] as const

export type Dimension = (typeof dimensions)[number]

/** Only calls that have these values count. */
export type UsageFilter = { readonly [D in Dimension]?: string | undefined }

/** In a filter: every outcome but `ok`. */
export const failedOutcome = 'failed'

export const isIncluded = ({ group }: UsageRow, { method, network, key, outcome }: UsageFilter): boolean =>
  (method === undefined || group.method === method) &&
  (network === undefined || group.network === network) &&
  (key === undefined || group.key === key) &&
  (outcome === undefined || (outcome === failedOutcome ? group.outcome !== successOutcome : group.outcome === outcome))

/** As requests to the APIs have it. */
export const filterQuery = {
  method: { type: 'string', description: 'Only calls of this method.' },
  network: { type: 'string', description: 'Only calls of this network.' },
  key: { type: 'string', description: 'Only calls with the key of this id.' },
  outcome: { type: 'string', description: 'Only calls with this outcome, such as `ok`, or with any but `ok`: `failed`.' },
} as const
