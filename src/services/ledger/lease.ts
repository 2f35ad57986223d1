import type { Tally } from '../../store/lease.ts'

/** What this process holds of one account's day. What was granted is returned, used or in hand, always. */
export class Lease {
  readonly day: number
  /** Credits in hand. A charge changes nothing else. */
  rem = 0
  #granted = 0
  #returned = 0
  /** Until the store's first answer nothing is known: this process may have forgotten an earlier lease of the day. */
  #known = false
  #usedBefore = 0
  #reported = 0
  #recorded = 0
  #asked = 0
  #answered = 0

  constructor(day: number) {
    this.day = day
  }

  get used(): number {
    return this.#granted - this.#returned - this.rem
  }

  /** What was used of this very lease. */
  get spent(): number {
    return this.used - this.#usedBefore
  }

  /** Does the store have yet to hear of what was used since? */
  get isNews(): boolean {
    return this.used !== this.#reported
  }

  /** Credits that were lent, and that the store has not heard of. */
  get owed(): number {
    return Math.max(0, this.#granted - this.#recorded)
  }

  /** Nothing is in hand, the store knows all, and no ask is open. */
  get isSettled(): boolean {
    return this.rem === 0 && !this.isNews && this.#answered === this.#asked
  }

  /** Takes credits out of the hand; the next ask returns them. */
  giveBack(credits: number): void {
    this.rem -= credits
    this.#returned += credits
  }

  /** Puts credits in the hand that the store has not granted; it hears of them with the next ask, and counts them as leased. */
  lend(credits: number): void {
    this.#granted += credits
    this.rem += credits
  }

  /** What ask number `seq` says about this process. */
  tell(seq: number): Tally | undefined {
    this.#asked = seq
    return this.#known ? { granted: this.#granted, returned: this.#returned, used: this.used } : undefined
  }

  /** Takes over what the store has on record after ask number `seq`. A late or doubled answer costs one more ask. */
  hear(seq: number, { granted, returned, used }: Tally): void {
    if (!this.#known) this.#remember(returned, used)
    this.rem += Math.max(0, granted - this.#granted)
    this.#granted = Math.max(this.#granted, granted)
    this.#answered = seq
    this.#reported = used
    this.#recorded = granted
  }

  #remember(returned: number, used: number): void {
    this.#known = true
    this.#returned += returned
    this.#usedBefore = used
    // What was granted before and is not in this lease has been returned or used.
    this.#granted += returned + used
  }
}
