import { signal } from '@preact/signals'
import type { Account, Key } from '../api.ts'
import { onSignedOut } from '../request.ts'

// What the API for operators responds: /api/v1/openapi.json on the admin listener describes it.

export interface OperatorSession {
  readonly by: 'token' | 'session'
  readonly version: string
  /** The URL of the dashboard for developers. */
  readonly dashboard: string | null
}

export interface AccountRow {
  readonly id: string
  readonly name: string
  readonly plan: string
  readonly credits: number | null
  readonly label: string | null
  readonly suspended: string | null
  readonly deleteAt: string | null
  readonly created: string
}

export interface AccountPage {
  readonly accounts: readonly AccountRow[]
  readonly next: string | null
}

export interface AccountWithBalance extends AccountRow {
  readonly balance: Account['balance']
}

export type AccountKey = Omit<Key, 'usedToday' | 'lastUsed'>

export interface Plan {
  readonly name: string
  readonly dailyCredits: number
}

export interface TrafficGroup {
  readonly name: string
  /** The name of the account. */
  readonly account?: string
  readonly calls: number
  readonly credits: number
  readonly forwarded: number
}

export interface Traffic {
  readonly by: string
  readonly groupCount: number
  readonly groups: readonly TrafficGroup[]
}

export interface Upstream {
  readonly name: string
  readonly usable: boolean
  readonly because: string | null
  readonly head: number | null
  readonly lagBlocks: number | null
  readonly openBreakers: readonly string[]
  readonly rateLimited: boolean
  readonly rateSpent: boolean
  readonly fewerCalls: readonly { readonly class: string; readonly reason: string; readonly rule: string }[]
  readonly requests: number
  readonly share: number | null
  readonly failures: number
  readonly inFlight: number | null
  readonly p50Ms: number | null
  readonly p99Ms: number | null
}

export interface Nodes {
  readonly seconds: number
  readonly networks: readonly {
    readonly name: string
    readonly head: number | null
    readonly finalized: number | null
    readonly calls: number
    readonly upstreams: readonly Upstream[]
  }[]
}

export interface Change {
  readonly time: string
  readonly by: { readonly kind: string; readonly name: string }
  readonly action: string
  readonly account: { readonly id: string; readonly name: string }
  readonly target?: string
  readonly after?: Readonly<Record<string, unknown>>
  readonly before?: Readonly<Record<string, unknown>>
}

export interface ChangePage {
  readonly changeCount: number
  /** The newest first. */
  readonly changes: readonly Change[]
}

/** Undefined: not known yet; null: nobody is signed in. */
export const session = signal<OperatorSession | null | undefined>(undefined)

onSignedOut(() => {
  session.value = null
})
