/** A mistake that somebody could make: a piece of the source, and what stands there instead. */
export interface Bug {
  readonly name: string
  /** Below the root, as it is compiled. */
  readonly file: string
  /** Stands there once, in the compiler's layout. */
  readonly from: string
  readonly to: string
  /** Where to begin, when luck is needed to catch it. */
  readonly seed?: number
}

/** Each must be caught, or the checks are too weak. Where one no longer fits the source, plant it anew. */
export const bugs: readonly Bug[] = [
  {
    name: 'the store takes an ask that is late or comes twice',
    file: 'src/store/lease.js',
    from: 'ask.seq <= entry.seq',
    to: 'false',
  },
  {
    name: 'a stale tally lowers what was granted',
    file: 'src/store/lease.js',
    from: 'Math.max(entry.granted, tally.granted)',
    to: 'tally.granted',
  },
  {
    name: 'a store that lost its last writes does not learn them again',
    file: 'src/store/lease.js',
    from: 'Math.max(entry.granted, tally.granted)',
    to: 'entry.granted',
  },
  {
    name: 'what was returned is added up again with each ask',
    file: 'src/store/lease.js',
    from: 'Math.max(entry.returned, tally.returned)',
    to: 'entry.returned + tally.returned',
  },
  {
    name: 'what was returned is counted twice in the sum of all processes',
    file: 'src/store/lease.js',
    from: '- (returned - entry.returned)',
    to: '- 2 * (returned - entry.returned)',
  },
  {
    name: 'a grant whose answer was lost is granted once more',
    file: 'src/store/lease.js',
    from: 'granted - tally.granted',
    to: '0',
  },
  {
    name: 'what is needed is granted whether or not it is there',
    file: 'src/store/lease.js',
    from: 'need - unseen > left',
    to: 'false',
  },
  {
    name: 'the store grants for a day that it is not in',
    file: 'src/store/lease.js',
    from: 'ask.day === today',
    to: 'true',
  },
  {
    name: 'an answer that comes late is added to the hand once more',
    file: 'src/services/ledger/lease.js',
    from: 'granted - this.#granted)',
    to: 'granted - this.#returned - this.used)',
  },
  {
    name: 'midnight is read from the clock on the wall',
    file: 'src/services/ledger/teller.js',
    from: 'now >= this.#midnight',
    to: 'Math.floor(this.clock.now() / dayLength) > this.#day',
  },
  {
    name: 'midnight is counted from when the answer came',
    file: 'src/services/ledger/teller.js',
    from: 'sent + endsIn',
    to: 'this.clock.monotonic() + endsIn',
  },
  {
    name: 'midnight is late by what is less than a millisecond',
    file: 'src/services/ledger/teller.js',
    from: 'sent + endsIn - 1',
    to: 'sent + endsIn',
    seed: 340,
  },
  {
    name: 'what is given back after midnight goes to the new day',
    file: 'src/services/ledger/purse.js',
    from: 'lease !== this.#lease)\n            return false',
    to: 'false)\n            return false',
  },
  {
    name: 'a call that is completed twice is given back twice',
    file: 'src/services/ledger/charge.js',
    from: 'this.#isRefunded = true',
    to: 'this.#isRefunded = false',
  },
  {
    name: 'what is given back to an account that rests stays in the hand',
    file: 'src/services/ledger/purse.js',
    from: 'lease.rem += cost;\n        this.#arm()',
    to: 'lease.rem += cost',
  },
  {
    name: 'a process that stops forgets accounts for which it is asking',
    file: 'src/services/ledger/purse.js',
    from: 'await this.#asking',
    to: 'if (this.#asking !== undefined) return true',
  },
  {
    name: 'a process that stops takes for given back what was not',
    file: 'src/services/ledger/purse.js',
    from: 'return this.#leftovers.isEmpty',
    to: 'return true',
  },
  {
    name: 'what is left at midnight is never given back',
    file: 'src/services/ledger/leftovers.js',
    from: '(!lease.isSettled)',
    to: '(false)',
  },
  {
    name: 'more is lent than grace allows',
    file: 'src/services/ledger/purse.js',
    from: 'this.#lent + missing <= grace.credits',
    to: 'true',
  },
  {
    name: 'an answer forgives what was lent while it was on its way',
    file: 'src/services/ledger/purse.js',
    from: 'this.#lent = this.#lease.owed',
    to: 'this.#lent = 0',
    seed: 180,
  },
  {
    name: 'credits are lent to an account that has not asked since the store is back',
    file: 'src/services/ledger/purse.js',
    from: 'awayFor !== undefined && awayFor < grace.lasts',
    to: '!(awayFor >= grace.lasts)',
  },
  {
    name: 'grace never ends',
    file: 'src/services/ledger/purse.js',
    from: 'awayFor < grace.lasts',
    to: 'true',
    seed: 340,
  },
  {
    name: 'the store never hears of what was lent',
    file: 'src/services/ledger/lease.js',
    from: 'this.#granted += credits',
    to: 'this.#granted += 0',
  },
  {
    name: 'the store does not hear of what was lent to an account that rests',
    file: 'src/services/ledger/purse.js',
    from: 'this.#ask();\n        this.#arm();\n        return true',
    to: 'this.#ask();\n        return true',
  },
  {
    name: 'what was used before an account was forgotten can be spent again',
    file: 'src/services/ledger/lease.js',
    from: '+= returned + used',
    to: '+= returned',
    seed: 250,
  },
]
