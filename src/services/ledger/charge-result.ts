import type { CreditQuota } from '../../plugin/reply.ts'

/** What became of a request to spend credits. `storeUnavailable`: the store could not be asked and no lease was left to spend. */
export type ChargeResult =
  | {
      readonly kind: 'charged'
      /** The day that was charged, in days since 1970, UTC. */
      readonly day: number
      readonly quota: CreditQuota
      /** Gives the credits back. False when they stay used: their day is over, or they were given back before. */
      refund(): boolean
    }
  | {
      readonly kind: 'exhausted'
      /** The day's credits, and how many of them are used or in the hands of other gateways. */
      readonly limit: number
      readonly used: number
      /** Milliseconds since 1970: the next midnight UTC. */
      readonly resetAt: number
      readonly quota: CreditQuota
    }
  | { readonly kind: 'storeUnavailable' }

/** What an account may spend that the store has not granted, while it is away; it is charged when the store is back. */
export interface OutageGrace {
  /** Credits for each process, account and outage. */
  readonly maxCredits: number
  /** For so many ms of an outage. */
  readonly maxDurationMs: number
}
