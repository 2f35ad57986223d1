import type { Plan } from '../../plugin/call.ts'
import { hashApiKey, isWellFormedKey } from './api-key.ts'
import type { Secret } from '../../plugin/secret.ts'
import type { AccountRow, AccountStore, KeyWithAccount } from '../../store/store.ts'
import { LookupCache } from './lookups.ts'
import type { Lookup } from './lookups.ts'
import type { Clock } from '../clock.ts'

export type { Lookup } from './lookups.ts'

export interface Accounts {
  /** Who the key belongs to. A change in the store (a revoked key, another plan) is seen within 1 s. */
  find(key: Secret): Lookup | Promise<Lookup>
}

export type Plans = Readonly<Record<string, Plan>>

/**
 * Finds accounts in the store, and remembers what it found for as long as nothing changes there. Whether anything has is
 * looked up for all keys at once, about twice a second while anybody asks. It listens to the store until that is closed.
 */
export const openAccounts = (store: AccountStore, plans: Plans, clock: Clock): Accounts => {
  const cache = new LookupCache()
  const pending = new Map<string, Promise<Lookup>>()
  store.subscribe(() => cache.invalidate())
  const checkForChanges = openChangeCheck(store, clock, { changed: () => cache.invalidate(), away: () => cache.clearUnknown() })

  const fetchHolder = (keyText: string): Lookup | Promise<Lookup> => {
    const version = cache.version
    const cacheHolder = (holder: KeyWithAccount | undefined) => cache.set(keyText, toLookup(holder, plans), version)
    try {
      const found = store.findKey(hashApiKey(keyText))
      if (!(found instanceof Promise)) return cacheHolder(found)
      const answer = found.then(cacheHolder, () => cache.getStale(keyText)).finally(() => pending.delete(keyText))
      pending.set(keyText, answer)
      return answer
    } catch {
      return cache.getStale(keyText)
    }
  }
  const findCached = (text: string): Lookup | Promise<Lookup> => {
    const cached = cache.get(text)
    if (cached !== undefined) return cached
    return !cache.has(text) && !isWellFormedKey(text) ? malformedKey : (pending.get(text) ?? fetchHolder(text))
  }
  return {
    find(key) {
      const text = key.reveal()
      const checking = checkForChanges()
      // Where nothing is remembered that may be out of date, there is nothing to wait for.
      return checking === undefined || !cache.has(text) ? findCached(text) : checking.then(() => findCached(text))
    },
  }
}

/** Looks whether the store has changed, unless it did so lately; a promise only where it has to wait for that. */
const openChangeCheck = (
  store: AccountStore,
  clock: Clock,
  listener: { changed(): void; away(): void },
): (() => Promise<void> | undefined) => {
  let lastCount: number | undefined
  let validUntil = -Infinity
  let checking: Promise<void> | undefined
  /** Undefined: the store is away. */
  const recordCount = (count?: number) => {
    checking = undefined
    validUntil = clock.monotonic() + changeCheckIntervalMs
    if (count === undefined) return listener.away()
    if (count !== lastCount) listener.changed()
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

/** Half of the second within which changes must be seen, in ms. */
const changeCheckIntervalMs = 500
const malformedKey: Lookup = { kind: 'malformed' }

const toLookup = (holder: KeyWithAccount | undefined, plans: Plans): Lookup => {
  if (holder === undefined) return { kind: 'unknown' }
  const { key, account } = holder
  if (key.revoked !== undefined) return { kind: 'revoked' }
  const plan = effectivePlan(account, plans)
  if (plan === undefined) return { kind: 'planNotFound', plan: account.plan }
  return { kind: 'granted', key, account: { id: account.id, name: account.name, plan } }
}

/** What the account gets: its plan, with the credits of its own if it has such. Undefined when the plan is gone. */
export const effectivePlan = ({ plan: name, credits }: Pick<AccountRow, 'plan' | 'credits'>, plans: Plans): Plan | undefined => {
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined
  return plan && credits !== undefined ? { ...plan, dailyCredits: credits } : plan
}
