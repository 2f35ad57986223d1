/** A mistake that a developer could make: a piece of the compiled source, and its replacement. */
export interface Bug {
  readonly name: string
  /** Relative to the root of the compiled files. */
  readonly file: string
  /** Occurs once, in the layout of the compiler's output. */
  readonly original: string
  readonly replacement: string
  /** The first seed to try, where few seeds catch the bug. */
  readonly firstSeed?: number
}

/** Each must be caught, or the checks are too weak. A bug that no longer matches the source must be adapted to it. */
export const bugs: readonly Bug[] = [
  {
    name: 'the store applies a request that is late or duplicate',
    file: 'src/store/lease-accounting.js',
    original: 'request.seq <= record.seq',
    replacement: 'false',
  },
  {
    name: 'stale counters lower the granted credits',
    file: 'src/store/lease-accounting.js',
    original: 'Math.max(record.granted, counters.granted)',
    replacement: 'counters.granted',
  },
  {
    name: 'a store that lost its last writes does not restore them',
    file: 'src/store/lease-accounting.js',
    original: 'Math.max(record.granted, counters.granted)',
    replacement: 'record.granted',
  },
  {
    name: 'returned credits are added again with each request',
    file: 'src/store/lease-accounting.js',
    original: 'Math.max(record.returned, counters.returned)',
    replacement: 'record.returned + counters.returned',
  },
  {
    name: 'returned credits are counted twice in the sum of all processes',
    file: 'src/store/lease-accounting.js',
    original: '- (returned - record.returned)',
    replacement: '- 2 * (returned - record.returned)',
  },
  {
    name: 'a grant whose response was lost is granted once more',
    file: 'src/store/lease-accounting.js',
    original: 'granted - counters.granted',
    replacement: '0',
  },
  {
    name: 'minCredits are granted beyond the remaining credits',
    file: 'src/store/lease-accounting.js',
    original: 'minCredits - unseenGrant > remaining',
    replacement: 'false',
  },
  {
    name: 'the store grants credits for another day than its own',
    file: 'src/store/lease-accounting.js',
    original: 'request.day === today',
    replacement: 'true',
    firstSeed: 40,
  },
  {
    name: 'a late response is added to the available credits once more',
    file: 'src/services/ledger/lease.js',
    original: 'granted - this.#granted)',
    replacement: 'granted - this.#returned - this.used)',
  },
  {
    name: 'midnight is read from the wall clock',
    file: 'src/services/ledger/ledger-client.js',
    original: 'new DayBoundary(log)',
    replacement: 'Object.assign(new DayBoundary(log), { today: () => Math.floor(clock.now() / 86400000) })',
  },
  {
    name: 'midnight is counted from when the response arrived',
    file: 'src/services/ledger/ledger-client.js',
    original: 'dayBoundary.update(sentAt, ',
    replacement: 'dayBoundary.update(this.clock.monotonic(), ',
  },
  {
    name: 'midnight is late by less than a millisecond',
    file: 'src/services/ledger/day-boundary.js',
    original: 'sentAt + endsInMs - 1',
    replacement: 'sentAt + endsInMs',
    firstSeed: 645,
  },
  {
    name: 'a refund after midnight goes to the new day',
    file: 'src/services/ledger/account-ledger.js',
    original: 'lease !== this.#renewal.lease)\n            return false',
    replacement: 'false)\n            return false',
  },
  {
    name: 'a call is refunded twice',
    file: 'src/services/ledger/account-ledger.js',
    original: 'this.#used -= refunded',
    replacement: 'this.#isRefunded = false',
  },
  {
    name: 'a refund to an idle account stays available',
    file: 'src/services/ledger/account-ledger.js',
    original: 'lease.available += cost;\n        this.#renewal.scheduleChecks()',
    replacement: 'lease.available += cost',
  },
  {
    name: 'a process that stops forgets accounts with a request in flight',
    file: 'src/services/ledger/lease-renewal.js',
    original: 'await this.#renewal',
    replacement: 'if (this.#renewal !== undefined) return true',
  },
  {
    name: 'a process that stops considers credits returned that are not',
    file: 'src/services/ledger/lease-renewal.js',
    original: 'return this.#areAllReturned',
    replacement: 'return true',
  },
  {
    name: 'credits that are left at midnight are never returned',
    file: 'src/services/ledger/lease-renewal.js',
    original: '(!this.lease.isSettled)',
    replacement: '(false)',
  },
  {
    name: 'the overdraft exceeds the grace',
    file: 'src/services/ledger/store-outage.js',
    original: 'credits <= maxCredits',
    replacement: 'true',
  },
  {
    name: 'a response cancels an overdraft that was made while it was in flight',
    file: 'src/services/ledger/lease-renewal.js',
    original: 'this.#overdrawn = this.lease.overdraft',
    replacement: 'this.#overdrawn = 0',
    firstSeed: 265,
  },
  {
    name: 'an account that has sent no request since the outage may overdraw',
    file: 'src/services/ledger/store-outage.js',
    original: 'outageMs !== undefined && outageMs < maxDurationMs',
    replacement: '!(outageMs >= maxDurationMs)',
  },
  {
    name: 'grace never ends',
    file: 'src/services/ledger/store-outage.js',
    original: 'outageMs < maxDurationMs',
    replacement: 'true',
    firstSeed: 362,
  },
  {
    name: 'overdrafts are never reported to the store',
    file: 'src/services/ledger/lease.js',
    original: 'this.#granted += credits',
    replacement: 'this.#granted += 0',
  },
  {
    name: 'the overdraft of an idle account is not reported to the store',
    file: 'src/services/ledger/lease-renewal.js',
    original: '!this.#isAtRest(now) : ',
    replacement: 'this.lease.available > 0 : ',
  },
  {
    name: 'an idle account whose limit was lowered returns credits that it does not have',
    file: 'src/services/ledger/lease-renewal.js',
    original: 'Math.max(0, Math.min(minCallsPerLease, Math.floor(most / Math.max(1, this.#maxCost))))',
    replacement: 'Math.min(minCallsPerLease, Math.floor(most / Math.max(1, this.#maxCost)))',
    firstSeed: 1_714,
  },
  {
    name: 'credits that were used before an account was evicted can be spent again',
    file: 'src/services/ledger/lease.js',
    original: '+= returned + used',
    replacement: '+= returned',
    firstSeed: 250,
  },
]
