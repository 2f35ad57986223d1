import type { Lease } from './lease.ts'
import type { LedgerClient } from './ledger-client.ts'

/** Leases that nobody spends any more, kept until the store has back what is left and knows what was used. */
export class ExpiredLeases {
  readonly #account: string
  readonly #client: LedgerClient
  #leases: Lease[] = []
  #settling: Promise<void> | undefined

  constructor(account: string, client: LedgerClient) {
    this.#account = account
    this.#client = client
  }

  get isEmpty(): boolean {
    return this.#leases.length === 0
  }

  add(lease: Lease): void {
    if (!lease.isSettled) this.#leases.push(lease)
  }

  /** What cannot be given back because the store is away stays for the next time. */
  settle(): Promise<void> {
    this.#settling ??= this.#settleAll().finally(() => {
      this.#settling = undefined
    })
    return this.#settling
  }

  async #settleAll(): Promise<void> {
    for (const lease of this.#leases) await this.#settleOne(lease)
    this.#leases = this.#leases.filter(lease => !lease.isSettled)
  }

  /** More than one ask is needed only when an answer that was on its way brings another grant. */
  async #settleOne(lease: Lease): Promise<void> {
    let isStoreUnavailable = false
    while (!lease.isSettled && !isStoreUnavailable) {
      lease.release(lease.available)
      isStoreUnavailable = (await this.#client.requestLease(this.#account, lease, { need: 0, want: 0, limit: 0 })) === undefined
    }
  }
}
