import { LRUCache } from 'lru-cache'
import type { Account, Key, Plan } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import type { AccountRow, AccountStore, KeyWithAccount } from '../../store/store.ts'
import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import type { Clock } from '../clock.ts'
import { hashApiKey, isWellFormedKey } from './api-key.ts'
import { keyRefusal } from './create-key.ts'

/** The result of looking up an API key. `storeUnavailable`: the store could not be read, so the key may be valid or not. */
export type Lookup =
  | { readonly kind: 'granted'; readonly key: Key; readonly account: Account }
  | { readonly kind: 'malformed' | 'unknown' | 'revoked' | 'suspended' | 'expired' | 'accountSuspended' | 'storeUnavailable' }
  /** gateway.yaml has no plan of this name any more. */
  | { readonly kind: 'planNotFound'; readonly plan: string }

export interface Accounts {
  /** The account of the key. A change in the store (a revoked key, another plan) takes effect within 1 s. */
  find(key: Secret): MaybePromise<Lookup>
}

/** The part of a store that keys are looked up in. */
export type KeyStore = Pick<AccountStore, 'findKey' | 'changeCount' | 'subscribe'>

/** For the host; plugins get find() alone. */
export interface ReloadableAccounts extends Accounts {
  /** A reload has changed the plans: every account has its new plan with its next call. */
  setPlans(plans: Plans): void
}

export type Plans = Readonly<Record<string, Plan>>

/**
 * Looks up keys in the store and caches the results until accounts or keys change there. Whether they have changed is
 * checked for all keys at once, about twice a second while keys are looked up. Subscribes to the store until it is closed.
 */
export const openAccounts = (store: KeyStore, initialPlans: Plans, clock: Clock): ReloadableAccounts => {
  let plans = initialPlans
  const cache = new LookupCache()
  const pending = new Map<string, PendingRead>()
  store.subscribe(() => cache.invalidate())
  const changeCheck = new ChangeCheck(store, clock, cache)

  const fetchLookup = (keyText: string): MaybePromise<Lookup> => {
    const { version } = cache
    const cacheLookup = (row: KeyWithAccount | undefined) => cache.set(keyText, toLookup(row, plans), version)
    const useStale = () => {
      changeCheck.recordOutage()
      return cache.getStale(keyText)
    }
    try {
      const row = store.findKey(hashApiKey(keyText))
      if (!(row instanceof Promise)) return cacheLookup(row)
      const lookup = row.then(cacheLookup, useStale).finally(() => {
        if (pending.get(keyText)?.lookup === lookup) pending.delete(keyText)
      })
      pending.set(keyText, { lookup, version })
      return lookup
    } catch {
      return useStale()
    }
  }
  /** A read that began before a change may return what was stored before it: then the key is read again. */
  const joinOrFetch = (keyText: string): MaybePromise<Lookup> => {
    const read = pending.get(keyText)
    return read?.version === cache.version ? read.lookup : fetchLookup(keyText)
  }
  const findCached = (keyText: string): MaybePromise<Lookup> => {
    const cached = cache.get(keyText)
    if (cached !== undefined) return cached
    return !cache.has(keyText) && !isWellFormedKey(keyText) ? malformedKey : joinOrFetch(keyText)
  }
  /** A cached key may have expired since. */
  const refuseExpired = (lookup: Lookup): Lookup =>
    lookup.kind === 'granted' && lookup.key.expires !== undefined && lookup.key.expires <= clock.now() ? expiredKey : lookup
  return {
    setPlans(next) {
      plans = next
      cache.invalidate()
    },
    find(key) {
      const keyText = key.reveal()
      const checking = changeCheck.run()
      // A key that is not cached is read from the store anyway: it need not wait for the check.
      return thenMaybe(checking && cache.has(keyText) ? checking : undefined, () => thenMaybe(findCached(keyText), refuseExpired))
    },
  }
}

/** A read of a key that is in flight, and the version of the cache when it began. */
interface PendingRead {
  readonly lookup: Promise<Lookup>
  readonly version: number
}

/** Checks whether the store has changed, unless it was checked lately, and tells the cache. */
class ChangeCheck {
  readonly #store: KeyStore
  readonly #clock: Clock
  readonly #cache: LookupCache
  #lastCount: number | undefined
  #validUntil = -Infinity
  #checking: Promise<void> | undefined

  constructor(store: KeyStore, clock: Clock, cache: LookupCache) {
    this.#store = store
    this.#clock = clock
    this.#cache = cache
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
    this.#cache.setStoreAvailable(false)
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
    this.#cache.setStoreAvailable(true)
    if (count !== this.#lastCount) this.#cache.invalidate()
    this.#lastCount = count
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

/**
 * Results by the text of the key. A result is valid for the version of the store that it was read from. Afterwards it is stale,
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

const malformedKey: Lookup = { kind: 'malformed' }
const expiredKey: Lookup = { kind: 'expired' }
const storeUnavailable: Lookup = { kind: 'storeUnavailable' }

const toLookup = (row: KeyWithAccount | undefined, plans: Plans): Lookup => {
  if (row === undefined) return { kind: 'unknown' }
  const { key, account } = row
  const refusal = keyRefusal(key, -Infinity) // whether it has expired is checked at each call
  if (refusal !== undefined) return { kind: refusal }
  if (account.suspended !== undefined) return { kind: 'accountSuspended' }
  const plan = effectivePlan(account, plans)
  if (plan === undefined) return { kind: 'planNotFound', plan: account.plan }
  return { kind: 'granted', key, account: { id: account.id, name: account.name, plan } }
}

/** The account's plan, with the credits of the account's own if it has such. Undefined when gateway.yaml has no such plan. */
export const effectivePlan = ({ plan: name, credits }: Pick<AccountRow, 'plan' | 'credits'>, plans: Plans): Plan | undefined => {
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined
  return plan && credits !== undefined ? { ...plan, dailyCredits: credits } : plan
}
