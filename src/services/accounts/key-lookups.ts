import { LRUCache } from 'lru-cache'
import type { AccountStore } from '../../store/store.ts'
import type { Account, Key } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
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
export type KeyStore = Pick<AccountStore, 'findKey' | 'findKeyById' | 'changeCount' | 'subscribe' | 'revokeKey'>

interface KeyLookupsOptions {
  readonly cache: LookupCache
  readonly changeCheck: ChangeCheck
  readonly clock: Clock
  /** For a text without a valid result in the cache. */
  findUncached(text: string): MaybePromise<Lookup>
}

/** Looks up the key, or the token in its place, of each call: from the cache without a promise, unless a check of the store is due. */
export const openKeyLookups = ({ cache, changeCheck, clock, findUncached }: KeyLookupsOptions): ((key: Secret) => MaybePromise<Lookup>) => {
  const refuseIfExpired = (lookup: Lookup): Lookup =>
    lookup.kind === 'granted' && lookup.key.expires !== undefined && lookup.key.expires <= clock.now() ? expiredKey : lookup
  const find = (text: string): MaybePromise<Lookup> => {
    const cached = cache.get(text)
    return cached === undefined ? thenMaybe(findUncached(text), refuseIfExpired) : refuseIfExpired(cached)
  }
  return key => {
    const text = key.reveal()
    const checking = changeCheck.run()
    // A key that is not cached is read from the store anyway: it need not wait for the check.
    return checking !== undefined && cache.has(text) ? checking.then(() => find(text)) : find(text)
  }
}

const expiredKey: Lookup = { kind: 'expired' }

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
export class LookupCache {
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
  has(text: string): boolean {
    return this.#existing.has(text) || this.#unknown.has(text)
  }

  /** The result, if it may be used without reading the store. */
  get(text: string): Lookup | undefined {
    const entry = this.#existing.get(text) ?? this.#unknown.get(text)
    return entry?.version === this.#version || !this.#isStoreAvailable ? entry?.lookup : undefined
  }

  /** Returns the lookup. `version` is that of the cache when the read began. A read that began later is not overwritten. */
  set(text: string, lookup: Lookup, version: number): Lookup {
    const isExisting = lookup.kind !== 'unknown'
    const current = this.#existing.get(text) ?? this.#unknown.get(text)
    if (current !== undefined && current.version > version) return lookup
    if (!isExisting) this.#existing.delete(text)
    const results = isExisting ? this.#existing : this.#unknown
    results.set(text, { lookup, version })
    return lookup
  }

  /** The key was revoked when it was read last, before this version or for it. */
  isRevoked(text: string, version: number): boolean {
    const entry = this.#existing.get(text)
    return entry?.lookup.kind === 'revoked' && entry.version <= version
  }

  /** The result of a key that the store failed to read. */
  getStale(text: string): Lookup {
    return this.#existing.get(text)?.lookup ?? storeUnavailable
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
  readonly #caches: readonly LookupCache[]
  #lastCount: number | undefined
  #validUntil = -Infinity
  #checking: Promise<void> | undefined

  constructor(store: KeyStore, clock: Clock, caches: readonly LookupCache[]) {
    this.#store = store
    this.#clock = clock
    this.#caches = caches
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
    for (const cache of this.#caches) cache.setStoreAvailable(false)
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
    for (const cache of this.#caches) {
      cache.setStoreAvailable(true)
      if (isChanged) cache.invalidate()
    }
    this.#lastCount = count
  }
}

/** Half of the second within which a change must take effect. */
const changeCheckIntervalMs = 500
