/** A node is failing when so many of the last 32 calls were late: usually 5 % are. */
const minFailingCount = 5

/** How many of the recent calls of one class to one node were late. */
export class LateCalls {
  /** One bit for each of the last 32 calls; 1: late. */
  #recent = 0

  recordInTime(): void {
    this.#recent <<= 1
  }

  recordLate(): void {
    this.#recent = (this.#recent << 1) | 1
  }

  /** More calls are late than usual. */
  get isFailing(): boolean {
    return countBits(this.#recent) >= minFailingCount
  }
}

/** Each step clears the lowest bit that is set. */
const countBits = (bits: number): number => {
  let count = 0
  for (let rest = bits; rest !== 0; rest &= rest - 1) count += 1
  return count
}
