import type { Budget } from '../../reply.ts'
import type { Lease } from './lease.ts'

/** What credits were drawn from. */
export interface Charged extends Budget {
  /** False when the lease is not in use any more. */
  refund(lease: Lease, cost: number): boolean
}

/** The verdict on a call that may go on. */
export class Charge {
  readonly kind = 'charged'
  readonly #purse: Charged
  readonly #lease: Lease
  readonly #cost: number
  #isRefunded = false

  constructor(purse: Charged, lease: Lease, cost: number) {
    this.#purse = purse
    this.#lease = lease
    this.#cost = cost
  }

  get day(): number {
    return this.#lease.day
  }

  get budget(): Budget {
    return this.#purse
  }

  refund(): boolean {
    if (this.#isRefunded) return false
    this.#isRefunded = true
    return this.#purse.refund(this.#lease, this.#cost)
  }
}
