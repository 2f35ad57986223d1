import { LRUCache } from 'lru-cache'
import type { AccountStore, KeyWithAccount } from '../../store/store.ts'
import type { MaybePromise } from '../../util/async.ts'
import type { Account, Key } from '../../plugin/call.ts'
import type { Clock } from '../clock.ts'

/** The result of looking up an API key. `storeUnavailable`: the store could not be read, so the key may be valid or not. */
export type Lookup =
  | { readonly kind: 'granted'; readonly key: Key; readonly account: Account }
  | { readonly kind: 'malformed' | 'unknown' | 'revoked' | 'suspended' | 'expired' | 'accountSuspended' | 'storeUnavailable' }
  /** A token (JWT) that is not accepted; the log and a metric have the reason. `tokenUnverifiable`: the keys of its issuer are not known now. */
  | { readonly kind: 'tokenInvalid' | 'tokenUnverifiable' }
  /** gateway.yaml has no plan of this name any more. */
  | { readonly kind: 'planNotFound'; readonly plan: string }

/** The part of a store that keys are looked up in. */
export type KeyStore = Pick<AccountStore, 'findKey' | 'findKeyById' | 'changeCount' | 'subscribe'>

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

/**
 * Checks whether the store has changed, unless it was checked lately, and tells the caches: a revoked key is refused within 1 s. One check
 * serves all keys.
 */
export class ChangeCheck {
  readonly #store: KeyStore
  readonly #clock: Clock
  readonly #lookups: readonly KeyLookups[]
  #lastCount: number | undefined
  #validUntil = -Infinity
  #checking: Promise<void> | undefined

  constructor(store: KeyStore, clock: Clock, lookups: readonly KeyLookups[]) {
    this.#store = store
    this.#clock = clock
    this.#lookups = lookups
  }

  /** Returns a promise only while it waits for the store. */
  run(): Promise<void> | undefined {
    const now = this.#clock.monotonic()
    if (this.#checking !== undefined || now < this.#validUntil) return this.#checking
    try {
      const count = this.#store.changeCount()
      if (count instanceof Promise) this.#checking = this.#awaitCount(count, now)
      else this.#recordCount(count, now)
    } catch {
      this.recordOutage()
    }
    return this.#checking
  }

  /** The store failed: stale results are valid until a later check succeeds. */
  recordOutage(): void {
    this.#validUntil = this.#clock.monotonic() + changeCheckIntervalMs
    for (const lookups of this.#lookups) lookups.setStoreAvailable(false)
  }

  async #awaitCount(count: Promise<number>, requestedAt: number): Promise<void> {
    try {
      this.#recordCount(await count, requestedAt)
    } catch {
      this.recordOutage()
    } finally {
      this.#checking = undefined
    }
  }

  /** The count may be as old as the request for it. */
  #recordCount(count: number, requestedAt: number): void {
    this.#validUntil = requestedAt + changeCheckIntervalMs
    const isChanged = count !== this.#lastCount
    for (const lookups of this.#lookups) {
      lookups.setStoreAvailable(true)
      if (isChanged) lookups.invalidate()
    }
    this.#lastCount = count
  }
}

/** Half of the second within which a change must take effect. */
const changeCheckIntervalMs = 500
