/** How fast an account spends, and so how much of its day this process should hold. */
export class Demand {
  /** Credits per ms. */
  #rate = 0
  #spent = 0
  #notedAt = -Infinity
  #dearest = 0

  /** A call of this cost had to wait. */
  meet(cost: number): void {
    this.#dearest = Math.max(this.#dearest, cost)
  }

  /** Takes note of what has been spent of the lease so far; what an older rate was counts half. */
  note(spent: number, now: number): void {
    const elapsed = Math.max(now - this.#notedAt, shortest)
    this.#rate = (this.#rate + Math.max(0, spent - this.#spent) / elapsed) / 2
    this.#spent = spent
    this.#notedAt = now
  }

  /** The account has been idle. */
  rest(): void {
    this.#rate = 0
  }

  /** Credits to hold: what `horizon` ms use up or the calls that wait cost, but no more than 1 % of the day or one call. */
  target(limit: number, horizon: number, waiting: number): number {
    const most = Math.max(Math.floor(limit / 100), this.#dearest)
    return Math.min(most, Math.max(few * this.#dearest, waiting, Math.ceil(this.#rate * horizon)))
  }
}

/** Calls to provide for before a rate is known: an account that begins goes on, more often than not. */
const few = 8

/** A burst right after an answer says little about the rate: it is spread over so many ms. */
const shortest = 100
