import { LRUCache } from 'lru-cache'
import type { KeyWithAccount } from '../../store/store.ts'
import type { MaybePromise } from '../../util/async.ts'
import type { Lookup } from './lookup.ts'

interface KeyLookupsOptions {
  /** Reads the key from the store. */
  read(text: string): MaybePromise<KeyWithAccount | undefined>
  toLookup(row: KeyWithAccount | undefined): Lookup
  /** The store could not be read. */
  onOutage(): void
}

/**
 * Looks keys up by one kind of text: the key itself, or its id. The results are cached until accounts or keys change in the store; while the
 * store is unavailable, they are used however old they are.
 */
export class KeyLookups {
  readonly #options: KeyLookupsOptions
  readonly #cache = new LookupCache()
  readonly #pending = new Map<string, PendingRead>()

  constructor(options: KeyLookupsOptions) {
    this.#options = options
  }

  /** True for valid and for stale results. */
  has(text: string): boolean {
    return this.#cache.has(text)
  }

  /** The result, if it may be used without reading the store. */
  getCached(text: string): Lookup | undefined {
    return this.#cache.get(text)
  }

  find(text: string): MaybePromise<Lookup> {
    return this.#cache.get(text) ?? this.#joinOrFetch(text)
  }

  /** The store has changed: every result may be out of date. */
  invalidate(): void {
    this.#cache.invalidate()
  }

  setStoreAvailable(isAvailable: boolean): void {
    this.#cache.setStoreAvailable(isAvailable)
  }

  /** A read that began before a change may return what was stored before it: then the key is read again. */
  #joinOrFetch(text: string): MaybePromise<Lookup> {
    const read = this.#pending.get(text)
    return read?.version === this.#cache.version ? read.lookup : this.#fetch(text)
  }

  #fetch(text: string): MaybePromise<Lookup> {
    const { read, toLookup } = this.#options
    const { version } = this.#cache
    const cacheLookup = (row: KeyWithAccount | undefined) => this.#cache.set(text, toLookup(row), version)
    try {
      const row = read(text)
      if (!(row instanceof Promise)) return cacheLookup(row)
      const useStale = () => this.#useStale(text)
      const lookup = row.then(cacheLookup, useStale).finally(() => {
        if (this.#pending.get(text)?.lookup === lookup) this.#pending.delete(text)
      })
      this.#pending.set(text, { lookup, version })
      return lookup
    } catch {
      return this.#useStale(text)
    }
  }

  #useStale(text: string): Lookup {
    this.#options.onOutage()
    return this.#cache.getStale(text)
  }
}

/** A read of a key that is in flight, and the version of the cache when it began. */
interface PendingRead {
  readonly lookup: Promise<Lookup>
  readonly version: number
}

const maxCachedKeys = 100_000
const maxCachedUnknownKeys = 10_000

interface CachedLookup {
  readonly lookup: Lookup
  /** The cache's version when the store was read. */
  readonly version: number
}

/** Limited by `maxSize`, each entry being 1: for `max`, lru-cache allocates all at once, which took 8 ms of a start, and 2 MB. */
const newLruCache = (maxEntries: number) => new LRUCache<string, CachedLookup>({ maxSize: maxEntries, sizeCalculation: () => 1 })

/**
 * Results by texts of keys. A result is valid for the version of the store that it was read from. Afterwards it is stale,
 * and is used only while the store is unavailable: it is never cached for a later version.
 */
class LookupCache {
  // Apart, so that a flood of invented keys cannot evict those that exist.
  readonly #existing = newLruCache(maxCachedKeys)
  readonly #unknown = newLruCache(maxCachedUnknownKeys)
  #version = 0
  #isStoreAvailable = true

  /** Counts the changes of the store that are known of. */
  get version(): number {
    return this.#version
  }

  /** The store has changed: every result may be out of date. */
  invalidate(): void {
    this.#version += 1
  }

  setStoreAvailable(isAvailable: boolean): void {
    this.#isStoreAvailable = isAvailable
    // Keys that were unknown may exist by now.
    if (!isAvailable) this.#unknown.clear()
  }

  /** True for valid and for stale results. */
  has(keyText: string): boolean {
    return this.#existing.has(keyText) || this.#unknown.has(keyText)
  }

  /** The result, if it may be used without reading the store. */
  get(keyText: string): Lookup | undefined {
    const entry = this.#existing.get(keyText) ?? this.#unknown.get(keyText)
    return entry?.version === this.#version || !this.#isStoreAvailable ? entry?.lookup : undefined
  }

  /** Returns the lookup. `version` is that of the cache when the read began. A read that began later is not overwritten. */
  set(keyText: string, lookup: Lookup, version: number): Lookup {
    const isExisting = lookup.kind !== 'unknown'
    const current = this.#existing.get(keyText) ?? this.#unknown.get(keyText)
    if (current !== undefined && current.version > version) return lookup
    if (!isExisting) this.#existing.delete(keyText)
    const results = isExisting ? this.#existing : this.#unknown
    results.set(keyText, { lookup, version })
    return lookup
  }

  /** The result of a key that the store failed to read. */
  getStale(keyText: string): Lookup {
    return this.#existing.get(keyText)?.lookup ?? storeUnavailable
  }
}

const storeUnavailable: Lookup = { kind: 'storeUnavailable' }
