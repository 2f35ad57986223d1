import type { Lease } from './lease.ts'
import type { Teller } from './teller.ts'

/** Leases that nobody spends any more, kept until the store has back what is left and knows what was used. */
export class Leftovers {
  readonly #account: string
  readonly #teller: Teller
  #leases: Lease[] = []
  #settling: Promise<void> | undefined

  constructor(account: string, teller: Teller) {
    this.#account = account
    this.#teller = teller
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
    let isAway = false
    while (!lease.isSettled && !isAway) {
      lease.giveBack(lease.rem)
      isAway = (await this.#teller.ask(this.#account, lease, { need: 0, want: 0, limit: 0 })) === undefined
    }
  }
}
