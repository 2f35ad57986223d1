import { retry } from './teller.ts'

/** What the store said last of an account's day, or that it said nothing. Either is believed until it may be asked again. */
export class Standing {
  #limit = 0
  #left = 0
  #leftUntil = -Infinity
  #isAway = false
  #awayUntil = -Infinity

  /** Credits of the day. */
  get limit(): number {
    return this.#limit
  }

  /** What the store had left, beside what this process holds. */
  get left(): number {
    return this.#left
  }

  /** The last ask was not answered. */
  get isAway(): boolean {
    return this.#isAway
  }

  /** It did not answer, and may not be asked again yet. */
  isSilent(now: number): boolean {
    return now < this.#awayUntil
  }

  /** The store is still believed to have less than so many credits left. */
  isShort(credits: number, now: number): boolean {
    return now < this.#leftUntil && credits > this.#left
  }

  /** The store answered, or did not. */
  hear(isAnswered: boolean, now: number): void {
    this.#isAway = !isAnswered
    if (!isAnswered) this.#awayUntil = now + retry
  }

  /** What it answered, of the day and the limit that hold now. */
  learn(left: number, now: number): void {
    this.#left = left
    this.#leftUntil = now + retry
  }

  /** The plan has another limit. */
  change(limit: number): void {
    this.#left += limit - this.#limit
    this.#limit = limit
    this.#leftUntil = -Infinity
  }

  /** Another day begins. */
  restart(): void {
    this.#left = this.#limit
    this.#leftUntil = -Infinity
  }
}
