/** A node is failing when so many of the last 32 calls were late: usually 5 % are. */
const minFailingCount = 5

/** A node is suspect when so many calls in a row were late, and it has answered none of its class for some time. */
const minSilentCount = 3

/** A node is suspect, too, when so many of the last 32 calls were late for `minPartialMs`: only some of its connections hang. */
const minPartialCount = 12
const minPartialMs = 500

/** How many of the recent calls of one class to one node were late. */
export class LateCalls {
  /** One bit for each of the last 32 calls; 1: late. */
  #recent = 0
  /** Since the last answer. */
  #lateInRow = 0
  /** When the first of these calls began. */
  #silentSince = 0
  #partialSince: number | undefined

  recordAnswer(isLate: boolean): void {
    this.#lateInRow = 0
    if (isLate) return
    this.#recent <<= 1
    if (countBits(this.#recent) < minPartialCount) this.#partialSince = undefined
  }

  recordLate(startedAt: number, now: number): void {
    this.#recent = (this.#recent << 1) | 1
    if (this.#lateInRow === 0) this.#silentSince = startedAt
    this.#lateInRow += 1
    if (countBits(this.#recent) >= minPartialCount) this.#partialSince ??= now
  }

  /** Forgets the calls until now. */
  reset(): void {
    this.#recent = 0
    this.#lateInRow = 0
    this.#partialSince = undefined
  }

  /** More calls are late than usual. */
  get isFailing(): boolean {
    return countBits(this.#recent) >= minFailingCount
  }

  /** `silentMs`: how long a node that is well may answer no call. */
  isSilent(now: number, silentMs: number): boolean {
    return this.#lateInRow >= minSilentCount && now - this.#silentSince >= silentMs
  }

  /** Many calls are late, though others are answered. */
  isPartlySilent(now: number): boolean {
    return this.#partialSince !== undefined && now - this.#partialSince >= minPartialMs
  }
}

/** Each step clears the lowest bit that is set. */
const countBits = (bits: number): number => {
  let count = 0
  for (let rest = bits; rest !== 0; rest &= rest - 1) count += 1
  return count
}
