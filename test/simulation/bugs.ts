/** A mistake that somebody could make: a piece of the source, and what stands there instead. */
export interface Bug {
  readonly name: string
  /** Below the root, as it is compiled. */
  readonly file: string
  /** Stands there once, in the compiler's layout. */
  readonly original: string
  readonly replacement: string
  /** Where to begin, when luck is needed to catch it. */
  readonly firstSeed?: number
}

/** Each must be caught, or the checks are too weak. Where one no longer fits the source, plant it anew. */
export const bugs: readonly Bug[] = [
  {
    name: 'the store takes an ask that is late or comes twice',
    file: 'src/store/lease-accounting.js',
    original: 'request.seq <= record.seq',
    replacement: 'false',
  },
  {
    name: 'a stale tally lowers what was granted',
    file: 'src/store/lease-accounting.js',
    original: 'Math.max(record.granted, counters.granted)',
    replacement: 'counters.granted',
  },
  {
    name: 'a store that lost its last writes does not learn them again',
    file: 'src/store/lease-accounting.js',
    original: 'Math.max(record.granted, counters.granted)',
    replacement: 'record.granted',
  },
  {
    name: 'what was returned is added up again with each ask',
    file: 'src/store/lease-accounting.js',
    original: 'Math.max(record.returned, counters.returned)',
    replacement: 'record.returned + counters.returned',
  },
  {
    name: 'what was returned is counted twice in the sum of all processes',
    file: 'src/store/lease-accounting.js',
    original: '- (returned - record.returned)',
    replacement: '- 2 * (returned - record.returned)',
  },
  {
    name: 'a grant whose answer was lost is granted once more',
    file: 'src/store/lease-accounting.js',
    original: 'granted - counters.granted',
    replacement: '0',
  },
  {
    name: 'what is needed is granted whether or not it is there',
    file: 'src/store/lease-accounting.js',
    original: 'minCredits - unseenGrant > remaining',
    replacement: 'false',
  },
  {
    name: 'the store grants for a day that it is not in',
    file: 'src/store/lease-accounting.js',
    original: 'request.day === today',
    replacement: 'true',
  },
  {
    name: 'an answer that comes late is added to the hand once more',
    file: 'src/services/ledger/lease.js',
    original: 'granted - this.#granted)',
    replacement: 'granted - this.#returned - this.used)',
  },
  {
    name: 'midnight is read from the clock on the wall',
    file: 'src/services/ledger/ledger-client.js',
    original: 'this.#dayBoundary.today(now)',
    replacement: 'Math.floor(this.clock.now() / 86400000)',
  },
  {
    name: 'midnight is counted from when the answer came',
    file: 'src/services/ledger/ledger-client.js',
    original: 'update(sentAt, ',
    replacement: 'update(this.clock.monotonic(), ',
  },
  {
    name: 'midnight is late by what is less than a millisecond',
    file: 'src/services/ledger/day-boundary.js',
    original: 'sentAt + endsInMs - 1',
    replacement: 'sentAt + endsInMs',
    firstSeed: 340,
  },
  {
    name: 'what is given back after midnight goes to the new day',
    file: 'src/services/ledger/account-ledger.js',
    original: 'lease !== this.#lease)\n            return false',
    replacement: 'false)\n            return false',
  },
  {
    name: 'a call that is completed twice is given back twice',
    file: 'src/services/ledger/charge-result.js',
    original: 'this.#isRefunded = true',
    replacement: 'this.#isRefunded = false',
  },
  {
    name: 'what is given back to an account that rests stays in the hand',
    file: 'src/services/ledger/account-ledger.js',
    original: 'lease.available += cost;\n        this.#scheduleTick()',
    replacement: 'lease.available += cost',
  },
  {
    name: 'a process that stops forgets accounts for which it is asking',
    file: 'src/services/ledger/account-ledger.js',
    original: 'await this.#renewal',
    replacement: 'if (this.#renewal !== undefined) return true',
  },
  {
    name: 'a process that stops takes for given back what was not',
    file: 'src/services/ledger/account-ledger.js',
    original: 'return this.#expiredLeases.isEmpty',
    replacement: 'return true',
  },
  {
    name: 'what is left at midnight is never given back',
    file: 'src/services/ledger/expired-leases.js',
    original: '(!lease.isSettled)',
    replacement: '(false)',
  },
  {
    name: 'more is lent than grace allows',
    file: 'src/services/ledger/account-ledger.js',
    original: 'this.#overdraft + missing <= grace.maxCredits',
    replacement: 'true',
  },
  {
    name: 'an answer forgives what was lent while it was on its way',
    file: 'src/services/ledger/account-ledger.js',
    original: 'this.#overdraft = this.#lease.overdraft',
    replacement: 'this.#overdraft = 0',
    firstSeed: 180,
  },
  {
    name: 'credits are lent to an account that has not asked since the store is back',
    file: 'src/services/ledger/account-ledger.js',
    original: 'outageMs !== undefined && outageMs < grace.maxDurationMs',
    replacement: '!(outageMs >= grace.maxDurationMs)',
  },
  {
    name: 'grace never ends',
    file: 'src/services/ledger/account-ledger.js',
    original: 'outageMs < grace.maxDurationMs',
    replacement: 'true',
    firstSeed: 340,
  },
  {
    name: 'the store never hears of what was lent',
    file: 'src/services/ledger/lease.js',
    original: 'this.#granted += credits',
    replacement: 'this.#granted += 0',
  },
  {
    name: 'the store does not hear of what was lent to an account that rests',
    file: 'src/services/ledger/account-ledger.js',
    original: 'this.#requestRenewal();\n        this.#scheduleTick();\n        return true',
    replacement: 'this.#requestRenewal();\n        return true',
  },
  {
    name: 'what was used before an account was forgotten can be spent again',
    file: 'src/services/ledger/lease.js',
    original: '+= returned + used',
    replacement: '+= returned',
    firstSeed: 250,
  },
]
