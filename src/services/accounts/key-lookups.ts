import { StoreEmptiedError, changeGroupCount, nearStoreMs } from '../../store/store.ts'
import type { AccountStore, ChangeCounts } from '../../store/store.ts'
import type { Account, Key } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { boundedCache } from '../../util/bounded-cache.ts'
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
export type KeyStore = Pick<AccountStore, 'findKey' | 'findKeyById' | 'changeCount' | 'changeCounts' | 'subscribe' | 'revokeKey'>

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

export const maxCachedKeys = 100_000
const maxCachedUnknownKeys = 10_000

interface CachedLookup {
  readonly lookup: Lookup
  /** The cache's version when the store was read. */
  readonly version: number
  /** Of the account; undefined for a key that does not exist. */
  readonly group: number | undefined
}

/**
 * Results by texts of keys. A result is valid until an account of its group changes; that a key is unknown, until any changes. Afterwards it is
 * stale, and is used only while the store is unavailable: it is never cached for a later version.
 */
export class LookupCache {
  // Apart, so that a flood of invented keys cannot evict those that exist.
  readonly #existing = boundedCache<CachedLookup>(maxCachedKeys)
  readonly #unknown = boundedCache<CachedLookup>(maxCachedUnknownKeys)
  #version = 0
  /** The version since which no account of the group has changed. */
  readonly #groupVersions = new Uint32Array(changeGroupCount)
  #isStoreAvailable = true

  /** Counts the changes of the store that are known of. */
  get version(): number {
    return this.#version
  }

  /** An account of this group has changed; without a group, any may have. */
  invalidate(group?: number): void {
    this.#version += 1
    if (group === undefined) this.#groupVersions.fill(this.#version)
    else this.#groupVersions[group] = this.#version
  }

  /** Keys that exist whose results are stale: at most so many, those that were used last. */
  staleKeys(most: number): readonly string[] {
    const stale: string[] = []
    for (const [text, entry] of this.#existing.entries()) {
      if (stale.length === most) break
      if (!this.#isValid(entry)) stale.push(text)
    }
    return stale
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
    return entry === undefined || this.#isValid(entry) || !this.#isStoreAvailable ? entry?.lookup : undefined
  }

  /** Returns the lookup. `version` is that of the cache when the read began. A read that began later is not overwritten. */
  set(text: string, lookup: Lookup, version: number, group: number | undefined): Lookup {
    const isExisting = lookup.kind !== 'unknown'
    const current = this.#existing.get(text) ?? this.#unknown.get(text)
    if (current !== undefined && current.version > version) return lookup
    if (!isExisting) this.#existing.delete(text)
    const results = isExisting ? this.#existing : this.#unknown
    results.set(ownText(text), { lookup, version, group })
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

  #isValid({ version, group }: CachedLookup): boolean {
    return version >= (group === undefined ? this.#version : (this.#groupVersions[group] ?? Infinity))
  }
}

/** A text that V8 has cut out of a URL keeps the URL in memory, which takes twice as much. */
const ownText = (text: string): string => Buffer.from(text).toString()

const storeUnavailable: Lookup = { kind: 'storeUnavailable' }

interface ChangeCheckOptions {
  /** Reads stale keys again: called after a change, where the next call of each would wait for a store that is far away. */
  readStale(): void
  /** Called with each check: whether the store has lost its accounts and keys. */
  onEmptied(isEmptied: boolean): void
}

/**
 * Checks whether accounts or keys have changed, and tells the caches which: a revoked key is refused within 1 s. One check serves all keys. It
 * begins with a call, before the last result is too old; far from the store also without one, so that calls do not wait for it.
 */
export class ChangeCheck {
  readonly #store: KeyStore
  readonly #clock: Clock
  readonly #caches: readonly LookupCache[]
  readonly #readStale: () => void
  readonly #onEmptied: (isEmptied: boolean) => void
  #known: ChangeCounts | undefined
  #validUntil = -Infinity
  #repeatAt = -Infinity
  #checking: Promise<void> | undefined
  #checkingSince = -Infinity
  #usedAt = -Infinity
  /** As the last check found it. */
  #isStoreFar = false
  #isStoreAvailable = true

  constructor(store: KeyStore, clock: Clock, caches: readonly LookupCache[], { readStale, onEmptied }: ChangeCheckOptions) {
    this.#store = store
    this.#clock = clock
    this.#caches = caches
    this.#readStale = readStale
    this.#onEmptied = onEmptied
  }

  /** Returns a promise only where its result is too old. After a failure, no call waits for a check that has been silent for long. */
  run(): Promise<void> | undefined {
    const now = this.#clock.monotonic()
    this.#usedAt = now
    this.#startIfDue(now)
    const isSilent = !this.#isStoreAvailable && now - this.#checkingSince >= maxCheckWaitMs
    return now < this.#validUntil || isSilent ? undefined : this.#checking
  }

  /** The store failed: stale results are valid until a later check succeeds. */
  recordOutage(error: unknown): void {
    if (error instanceof StoreEmptiedError) this.#onEmptied(true)
    this.#validUntil = this.#clock.monotonic() + changeCheckIntervalMs
    this.#repeatAt = this.#clock.monotonic() + repeatMarginMs
    this.#setStoreAvailable(false)
  }

  /** Accounts of these groups have changed; with undefined, any may have. */
  invalidate(groups: readonly (number | undefined)[]): void {
    for (const cache of this.#caches) for (const group of groups) cache.invalidate(group)
    if (this.#isStoreFar) this.#readStale()
  }

  #startIfDue(now: number): void {
    if (this.#checking === undefined && now >= this.#repeatAt) this.#start(now)
  }

  /** Also without a call. */
  #startWhenDue(now: number): void {
    if (now - this.#usedAt < unusedTimeoutMs)
      this.#clock.after(Math.max(0, this.#repeatAt - now), () => this.#startIfDue(this.#clock.monotonic()))
  }

  #start(requestedAt: number): void {
    this.#checkingSince = requestedAt
    try {
      const total = this.#known?.total
      const changed =
        total === undefined
          ? this.#store.changeCounts()
          : thenMaybe(this.#store.changeCount(), count => (count === total ? undefined : this.#readCounts()))
      if (changed instanceof Promise) this.#checking = this.#await(changed, requestedAt)
      else this.#record(changed, requestedAt)
    } catch (error) {
      this.recordOutage(error)
    }
  }

  /** The store has just answered: calls wait for it again. */
  #readCounts(): MaybePromise<ChangeCounts> {
    this.#checkingSince = this.#clock.monotonic()
    return this.#store.changeCounts()
  }

  async #await(changed: Promise<ChangeCounts | undefined>, requestedAt: number): Promise<void> {
    try {
      this.#record(await changed, requestedAt)
    } catch (error) {
      this.recordOutage(error)
    }
    this.#checking = undefined
    if (this.#isStoreFar) this.#startWhenDue(this.#clock.monotonic())
  }

  /** `changed` is undefined where nothing has; else it may be as old as the request for it. */
  #record(changed: ChangeCounts | undefined, requestedAt: number): void {
    this.#validUntil = requestedAt + changeCheckIntervalMs
    // As long before as two requests take: the next check may need both.
    const roundTripMs = this.#clock.monotonic() - requestedAt
    this.#isStoreFar = roundTripMs > nearStoreMs
    this.#repeatAt = this.#validUntil - 2 * roundTripMs - repeatMarginMs
    this.#setStoreAvailable(true)
    this.#onEmptied(false)
    if (changed === undefined) return
    this.invalidate(changedGroups(this.#known, changed))
    this.#known = changed
  }

  #setStoreAvailable(isAvailable: boolean): void {
    this.#isStoreAvailable = isAvailable
    for (const cache of this.#caches) cache.setStoreAvailable(isAvailable)
  }
}

/** Undefined stands for all. */
const changedGroups = (known: ChangeCounts | undefined, { byGroup }: ChangeCounts): readonly (number | undefined)[] => {
  const groups = [...new Set([...byGroup.keys(), ...(known?.byGroup.keys() ?? [])])]
  const changed = groups.filter(group => known?.byGroup.get(group) !== byGroup.get(group))
  return known === undefined || changed.length === 0 ? [undefined] : changed
}

/** Half of the second within which a change must take effect. */
const changeCheckIntervalMs = 500
/** A call in this time before begins the next check. */
const repeatMarginMs = 50
/** After a failure; longer than an answer takes from far away. */
const maxCheckWaitMs = 300
/** So long after the last call, checks without one end. */
const unusedTimeoutMs = 600_000
