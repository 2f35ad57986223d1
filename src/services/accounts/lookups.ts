import { LRUCache } from 'lru-cache'
import type { Account, Key } from '../../call.ts'

/** What a key opens, or why it opens nothing. `away`: the store could not be asked, so nobody can tell. */
export type Lookup =
  | { readonly kind: 'granted'; readonly key: Key; readonly account: Account }
  | { readonly kind: 'malformed' | 'unknown' | 'revoked' | 'away' }
  /** The account's plan does not stand in gateway.yaml any more. */
  | { readonly kind: 'planless'; readonly plan: string }

interface Entry {
  readonly lookup: Lookup
  /** How many changes were known of when the store was asked. */
  readonly asOf: number
}

/** By their sizes, each 1: what lru-cache keeps by `max` it makes room for at once, which took 8 ms of a start, and 2 MB. */
const keepUpTo = (most: number) => new LRUCache<string, Entry>({ maxSize: most, sizeCalculation: () => 1 })

/** What the store said of keys, and whether anything may have changed there since. */
export class Lookups {
  // Apart, so that a flood of invented keys cannot push the real ones out.
  readonly #real = keepUpTo(100_000)
  readonly #unknown = keepUpTo(10_000)
  #changes = 0

  /** How many changes are known of. */
  get changes(): number {
    return this.#changes
  }

  /** Something has changed in the store: whatever it said may be out of date. */
  outdate(): void {
    this.#changes += 1
  }

  /** Has the store said anything of the key, now or before something changed? */
  has(text: string): boolean {
    return this.#real.has(text) || this.#unknown.has(text)
  }

  /** What the store said of the key, if nothing has changed since. */
  find(text: string): Lookup | undefined {
    const entry = this.#real.get(text) ?? this.#unknown.get(text)
    return entry?.asOf === this.#changes ? entry.lookup : undefined
  }

  /** Gives the lookup back. `asOf`: how many changes were known of when the store was asked. */
  keep(text: string, lookup: Lookup, asOf: number): Lookup {
    if (lookup.kind === 'unknown') {
      this.#real.delete(text)
      this.#unknown.set(text, { lookup, asOf })
    } else {
      this.#real.set(text, { lookup, asOf })
    }
    return lookup
  }

  /** The store is away. Whom it knew it knows still; an unknown key may have been made since. */
  recall(text: string): Lookup {
    const last = this.#real.get(text)?.lookup
    return last === undefined ? away : this.keep(text, last, this.#changes)
  }

  /** Keys that were unknown may have been made since. */
  forgetUnknown(): void {
    this.#unknown.clear()
  }
}

const away: Lookup = { kind: 'away' }
