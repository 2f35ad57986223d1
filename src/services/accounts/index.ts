import { LRUCache } from 'lru-cache'
import type { Account, Key, Plan } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import type { AccountRow, AccountStore, KeyWithAccount } from '../../store/store.ts'
import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import type { Clock } from '../clock.ts'
import { hashApiKey, isWellFormedKey } from './api-key.ts'

/** The result of looking up an API key. `storeUnavailable`: the store could not be read, so the key may be valid or not. */
export type Lookup =
  | { readonly kind: 'granted'; readonly key: Key; readonly account: Account }
  | { readonly kind: 'malformed' | 'unknown' | 'revoked' | 'storeUnavailable' }
  /** gateway.yaml has no plan of this name any more. */
  | { readonly kind: 'planNotFound'; readonly plan: string }

export interface Accounts {
  /** The account of the key. A change in the store (a revoked key, another plan) takes effect within 1 s. */
  find(key: Secret): MaybePromise<Lookup>
}

export type Plans = Readonly<Record<string, Plan>>

/**
 * Looks up keys in the store and caches the results until accounts or keys change there. Whether they have changed is
 * checked for all keys at once, about twice a second while keys are looked up. Subscribes to the store until it is closed.
 */
export const openAccounts = (store: AccountStore, plans: Plans, clock: Clock): Accounts => {
  const cache = new LookupCache()
  const pending = new Map<string, Promise<Lookup>>()
  store.subscribe(() => cache.invalidate())
  const checkForChanges = openChangeCheck(store, clock, {
    onChange: () => cache.invalidate(),
    onStoreUnavailable: () => cache.clearUnknown(),
  })

  const fetchLookup = (keyText: string): MaybePromise<Lookup> => {
    const version = cache.version
    const cacheLookup = (row: KeyWithAccount | undefined) => cache.set(keyText, toLookup(row, plans), version)
    try {
      const row = store.findKey(hashApiKey(keyText))
      if (!(row instanceof Promise)) return cacheLookup(row)
      const lookup = row.then(cacheLookup, () => cache.getStale(keyText)).finally(() => pending.delete(keyText))
      pending.set(keyText, lookup)
      return lookup
    } catch {
      return cache.getStale(keyText)
    }
  }
  const findCached = (keyText: string): MaybePromise<Lookup> => {
    const cached = cache.get(keyText)
    if (cached !== undefined) return cached
    return !cache.has(keyText) && !isWellFormedKey(keyText) ? malformedKey : (pending.get(keyText) ?? fetchLookup(keyText))
  }
  return {
    find(key) {
      const keyText = key.reveal()
      const checking = checkForChanges()
      // A key that is not cached is read from the store anyway: it need not wait for the check.
      return thenMaybe(checking && cache.has(keyText) ? checking : undefined, () => findCached(keyText))
    },
  }
}

interface ChangeListener {
  onChange(): void
  onStoreUnavailable(): void
}

/** Checks whether the store has changed, unless it was checked lately. Returns a promise only while it waits for the store. */
const openChangeCheck = (store: AccountStore, clock: Clock, listener: ChangeListener): (() => Promise<void> | undefined) => {
  let lastCount: number | undefined
  let validUntil = -Infinity
  let checking: Promise<void> | undefined
  /** Undefined: the store is unavailable. */
  const recordCount = (count?: number) => {
    checking = undefined
    validUntil = clock.monotonic() + changeCheckIntervalMs
    if (count === undefined) return listener.onStoreUnavailable()
    if (count !== lastCount) listener.onChange()
    lastCount = count
  }
  return () => {
    if (checking !== undefined || clock.monotonic() < validUntil) return checking
    try {
      const count = store.changeCount()
      if (count instanceof Promise) checking = count.then(recordCount, () => recordCount())
      else recordCount(count)
    } catch {
      recordCount()
    }
    return checking
  }
}

/** Half of the second within which a change must take effect. */
const changeCheckIntervalMs = 500
const maxCachedKeys = 100_000
const maxCachedUnknownKeys = 10_000

interface CachedLookup {
  readonly lookup: Lookup
  /** The cache's version when the store was read. */
  readonly version: number
}

/** Limited by `maxSize`, each entry being 1: for `max`, lru-cache allocates all at once, which took 8 ms of a start, and 2 MB. */
const newLruCache = (maxEntries: number) => new LRUCache<string, CachedLookup>({ maxSize: maxEntries, sizeCalculation: () => 1 })

/** Results by the text of the key. They are valid for one version of the store, and stale afterwards. */
class LookupCache {
  // Apart, so that a flood of invented keys cannot evict those that exist.
  readonly #existing = newLruCache(maxCachedKeys)
  readonly #unknown = newLruCache(maxCachedUnknownKeys)
  #version = 0

  /** Counts the changes of the store that are known of. */
  get version(): number {
    return this.#version
  }

  /** The store has changed: every result may be out of date. */
  invalidate(): void {
    this.#version += 1
  }

  /** True for valid and for stale results. */
  has(keyText: string): boolean {
    return this.#existing.has(keyText) || this.#unknown.has(keyText)
  }

  /** The result, if it is valid. */
  get(keyText: string): Lookup | undefined {
    const entry = this.#existing.get(keyText) ?? this.#unknown.get(keyText)
    return entry?.version === this.#version ? entry.lookup : undefined
  }

  /** Returns the lookup. `version` is that of the cache when the store was read. */
  set(keyText: string, lookup: Lookup, version: number): Lookup {
    if (lookup.kind === 'unknown') {
      this.#existing.delete(keyText)
      this.#unknown.set(keyText, { lookup, version })
    } else {
      this.#existing.set(keyText, { lookup, version })
    }
    return lookup
  }

  /** For a store that is unavailable: a stale result counts as valid, except that an unknown key may exist by now. */
  getStale(keyText: string): Lookup {
    const stale = this.#existing.get(keyText)?.lookup
    return stale === undefined ? storeUnavailable : this.set(keyText, stale, this.#version)
  }

  /** Keys that were unknown may exist by now. */
  clearUnknown(): void {
    this.#unknown.clear()
  }
}

const malformedKey: Lookup = { kind: 'malformed' }
const storeUnavailable: Lookup = { kind: 'storeUnavailable' }

const toLookup = (row: KeyWithAccount | undefined, plans: Plans): Lookup => {
  if (row === undefined) return { kind: 'unknown' }
  const { key, account } = row
  if (key.revoked !== undefined) return { kind: 'revoked' }
  const plan = effectivePlan(account, plans)
  if (plan === undefined) return { kind: 'planNotFound', plan: account.plan }
  return { kind: 'granted', key, account: { id: account.id, name: account.name, plan } }
}

/** The account's plan, with the credits of the account's own if it has such. Undefined when gateway.yaml has no such plan. */
export const effectivePlan = ({ plan: name, credits }: Pick<AccountRow, 'plan' | 'credits'>, plans: Plans): Plan | undefined => {
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined
  return plan && credits !== undefined ? { ...plan, dailyCredits: credits } : plan
}
