import { LRUCache } from 'lru-cache'
import type { Account, Key } from '../../plugin/call.ts'

/** What a key opens, or why it opens nothing. `storeUnavailable`: the store could not be asked, so nobody can tell. */
export type Lookup =
  | { readonly kind: 'granted'; readonly key: Key; readonly account: Account }
  | { readonly kind: 'malformed' | 'unknown' | 'revoked' | 'storeUnavailable' }
  /** The account's plan does not stand in gateway.yaml any more. */
  | { readonly kind: 'planNotFound'; readonly plan: string }

interface CachedLookup {
  readonly lookup: Lookup
  /** How many changes were known of when the store was asked. */
  readonly version: number
}

/** By their sizes, each 1: what lru-cache keeps by `max` it makes room for at once, which took 8 ms of a start, and 2 MB. */
const newLookupCache = (maxEntries: number) => new LRUCache<string, CachedLookup>({ maxSize: maxEntries, sizeCalculation: () => 1 })

/** What the store said of keys, and whether anything may have changed there since. */
export class LookupCache {
  // Apart, so that a flood of invented keys cannot push the real ones out.
  readonly #existing = newLookupCache(100_000)
  readonly #unknown = newLookupCache(10_000)
  #version = 0

  /** How many changes are known of. */
  get version(): number {
    return this.#version
  }

  /** Something has changed in the store: whatever it said may be out of date. */
  invalidate(): void {
    this.#version += 1
  }

  /** Has the store said anything of the key, now or before something changed? */
  has(text: string): boolean {
    return this.#existing.has(text) || this.#unknown.has(text)
  }

  /** What the store said of the key, if nothing has changed since. */
  get(text: string): Lookup | undefined {
    const entry = this.#existing.get(text) ?? this.#unknown.get(text)
    return entry?.version === this.#version ? entry.lookup : undefined
  }

  /** Gives the lookup back. `asOf`: how many changes were known of when the store was asked. */
  set(text: string, lookup: Lookup, version: number): Lookup {
    if (lookup.kind === 'unknown') {
      this.#existing.delete(text)
      this.#unknown.set(text, { lookup, version })
    } else {
      this.#existing.set(text, { lookup, version })
    }
    return lookup
  }

  /** The store is away. Whom it knew it knows still; an unknown key may have been made since. */
  getStale(text: string): Lookup {
    const last = this.#existing.get(text)?.lookup
    return last === undefined ? storeUnavailable : this.set(text, last, this.#version)
  }

  /** Keys that were unknown may have been made since. */
  clearUnknown(): void {
    this.#unknown.clear()
  }
}

const storeUnavailable: Lookup = { kind: 'storeUnavailable' }
