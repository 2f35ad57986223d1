import { signal } from '@preact/signals'
import { onSignedOut } from './request.ts'

/** The API of the portal: /api/v1/openapi.json describes it. */

export interface Session {
  readonly person: Person
  readonly account: { readonly id: string; readonly name: string }
}

export type Role = 'viewer' | 'developer' | 'owner'

export interface Person {
  readonly id: string
  readonly name: string
  readonly role: Role
  readonly email: string | null
  readonly emailVerified: boolean
}

export interface Account {
  readonly account: { readonly id: string; readonly name: string }
  readonly plan: { readonly name: string; readonly dailyCredits: number | null; readonly forwarding: boolean }
  readonly balance: {
    readonly day: string
    readonly limit: number | null
    readonly used: number
    readonly held: number
    readonly forfeited: number
    readonly left: number | null
    readonly resetAt: string
  }
  readonly suspended: string | null
  /** The last 24, in order. */
  readonly hours: readonly { readonly start: string; readonly calls: number; readonly credits: number }[]
  readonly creditsPerHour: number
  readonly runsOutAt: string | null
  readonly now: string
}

export interface UsageSeries {
  readonly name: string
  readonly calls: number
  readonly credits: number
  readonly forwarded: number
  readonly points: readonly number[]
}

export interface Usage {
  readonly by: string
  readonly step: 'hour' | 'day'
  readonly times: readonly string[]
  readonly groups: readonly UsageSeries[]
  readonly total: UsageSeries
}

export interface ErrorCount {
  readonly outcome: string
  readonly calls: number
  readonly code: number | null
  readonly message: string
  readonly advice: string
}

export interface Key {
  readonly id: string
  readonly name: string
  readonly hint: string
  readonly networks: readonly string[]
  readonly methods: readonly string[]
  readonly origins: readonly string[]
  readonly ips: readonly string[]
  readonly dailyCredits: number | null
  /** `10/s`; null without a limit of its own. */
  readonly rate: string | null
  readonly burst: number | null
  /** Of the daily limit; null without one. */
  readonly usedToday: number | null
  readonly state: 'active' | 'suspended' | 'expired' | 'revoked'
  readonly created: string
  readonly expires: string | null
  readonly suspended: string | null
  readonly revoked: string | null
  readonly lastUsed: string | null
}

export interface NewKey extends Key {
  readonly key: string
}

export interface Network {
  readonly name: string
  readonly chainId: number
  readonly http: string
  readonly ws: string
  readonly head: number | null
  readonly finalized: number | null
  readonly nodes: number
  readonly usableNodes: number
}

export interface Method {
  readonly name: string
  readonly credits: number
  readonly params: readonly { readonly title: string; readonly optional: boolean; readonly accepts: string; readonly default?: unknown }[]
}

export interface SignInOptions {
  /** Whether the gateway sends mail. */
  readonly email: boolean
  readonly signUp: boolean
  /** The name of the OpenID Connect provider. */
  readonly provider: string | null
}

export interface Identity {
  readonly id: string
  /** The URL of the provider. */
  readonly issuer: string
  readonly linked: string
}

export interface AccessToken {
  readonly id: string
  readonly name: string
  readonly hint: string
  readonly created: string
  readonly expires: string | null
}

export interface Alerts {
  readonly webhook: { readonly url: string } | null
  readonly email: boolean
  readonly daily: readonly number[]
  readonly monthly: readonly number[]
  /** Names of the owners whom mail goes to. */
  readonly mailReceivers: readonly string[]
  readonly deliveries: readonly AlertDelivery[]
}

export interface AlertDelivery {
  readonly date: string
  readonly threshold: number
  readonly channel: 'webhook' | 'email'
  readonly person: string | null
  readonly state: 'pending' | 'delivered' | 'failed'
  readonly lastStatus: string | null
  readonly lastAttempt: string | null
  readonly nextAttempt: string | null
}

/** Undefined: not known yet; null: nobody is signed in. */
export const session = signal<Session | null | undefined>(undefined)

onSignedOut(() => {
  session.value = null
})
