import type { CreditQuota } from '../../plugin/reply.ts'
import type { Lease } from './lease.ts'

/** What credits were drawn from. */
export interface RefundableBudget extends CreditQuota {
  /** False when the lease is not in use any more. */
  refund(lease: Lease, cost: number): boolean
}

/** The verdict on a call that may go on. */
export class LeaseCharge {
  readonly kind = 'charged'
  readonly #source: RefundableBudget
  readonly #lease: Lease
  readonly #cost: number
  #isRefunded = false

  constructor(source: RefundableBudget, lease: Lease, cost: number) {
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
