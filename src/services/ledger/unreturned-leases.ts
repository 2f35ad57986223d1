import { singleFlight } from '../../util/async.ts'
import type { Lease } from './lease.ts'
import type { LedgerClient } from './ledger-client.ts'

/** Leases that are not charged any more, kept until their available credits are returned and their use is reported. */
export class UnreturnedLeases {
  readonly #account: string
  readonly #client: LedgerClient
  #leases: Lease[] = []

  constructor(account: string, client: LedgerClient) {
    this.#account = account
    this.#client = client
  }

  get isEmpty(): boolean {
    return this.#leases.length === 0
  }

  add(lease: Lease): void {
    this.#leases.push(lease)
  }

  /** A lease that cannot be settled because the store is unavailable stays for the next call. */
  readonly settle = singleFlight(async (): Promise<void> => {
    for (const lease of this.#leases) await this.#settleOne(lease)
    this.#leases = this.#leases.filter(lease => !lease.isSettled)
  })

  /** More than one request is needed only when a response that was in flight brings another grant. */
  async #settleOne(lease: Lease): Promise<void> {
    let isStoreUnavailable = false
    while (!lease.isSettled && !isStoreUnavailable) {
      lease.release(lease.available)
      isStoreUnavailable = (await this.#client.requestLease(this.#account, lease, noCredits)) === undefined
    }
  }
}

const noCredits = { minCredits: 0, desiredCredits: 0, limit: 0 }
