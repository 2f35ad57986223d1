import type { CreditQuota } from '../../plugin/reply.ts'
import type { Lease } from './lease.ts'

/** The result of a charge. `storeUnavailable`: the leased credits are used up, and the store could not be asked for more. */
export type ChargeResult =
  | {
      readonly kind: 'charged'
      /** The day that was charged, in days since 1970, UTC. */
      readonly day: number
      readonly quota: CreditQuota
      /** Returns the credits. False when they stay used: their day is over, or they were refunded before. */
      refund(): boolean
    }
  | {
      readonly kind: 'exhausted'
      /** The day's credits, and how many of them are used or leased to other processes. */
      readonly limit: number
      readonly used: number
      /** Milliseconds since 1970: the next midnight UTC. */
      readonly resetAt: number
      readonly quota: CreditQuota
    }
  | { readonly kind: 'storeUnavailable' }

/**
 * How far an account may overdraw while the store is unavailable. The overdraft is charged when the store is available
 * again.
 */
export interface OutageGrace {
  /** Credits for each process, account and outage. */
  readonly maxCredits: number
  /** Since the outage began. */
  readonly maxDurationMs: number
}

/** The source of charged credits. */
export interface RefundableQuota extends CreditQuota {
  /** False when the lease is not in use any more. */
  refund(lease: Lease, cost: number): boolean
}

/** A charge to a lease. */
export class LeaseCharge implements Extract<ChargeResult, { kind: 'charged' }> {
  readonly kind = 'charged'
  readonly #source: RefundableQuota
  readonly #lease: Lease
  readonly #cost: number
  #isRefunded = false

  constructor(source: RefundableQuota, lease: Lease, cost: number) {
    this.#source = source
    this.#lease = lease
    this.#cost = cost
  }

  get day(): number {
    return this.#lease.day
  }

  get quota(): CreditQuota {
    return this.#source
  }

  refund(): boolean {
    if (this.#isRefunded) return false
    this.#isRefunded = true
    return this.#source.refund(this.#lease, this.#cost)
  }
}
