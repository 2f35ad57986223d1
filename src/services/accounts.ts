import { LRUCache } from 'lru-cache'
import type { Account, Key, Plan } from '../call.ts'
import { hashKey, isKey } from '../keys.ts'
import type { Secret } from '../secret.ts'
import type { AccountRow, AccountStore, Holder } from '../store/store.ts'
import type { Clock } from './clock.ts'

/** What a key opens, or why it opens nothing. `away`: the store could not be asked, so nobody can tell. */
export type Lookup =
  | { readonly kind: 'granted', readonly key: Key, readonly account: Account }
  | { readonly kind: 'malformed' | 'unknown' | 'revoked' | 'away' }
  /** The account's plan does not stand in gateway.yaml any more. */
  | { readonly kind: 'planless', readonly plan: string }

export interface Accounts {
  /** Who the key belongs to. A change in the store (a revoked key, another plan) is seen within 1 s. */
  find(key: Secret): Lookup | Promise<Lookup>
}

export interface OpenAccounts extends Accounts {
  close(): void
}

export type Plans = Readonly<Record<string, Plan>>

/**
 * Finds accounts in the store, and remembers what it found for as long as nothing changes there. Whether anything has is
 * looked up for all keys at once, about twice a second while anybody asks.
 */
export const openAccounts = (store: AccountStore, plans: Plans, clock: Clock): OpenAccounts => {
  // Apart, so that a flood of invented keys cannot push the real ones out.
  const real = keepUpTo(100_000)
  const unknown = keepUpTo(10_000)
  const asking = new Map<string, Promise<Lookup>>()
  let changes = 0
  const close = store.watch(() => { changes += 1 })
  const look = openLook(store, clock, {
    changed: () => { changes += 1 },
    away: () => unknown.clear(), // they may have been made since
  })

  const keep = (text: string, lookup: Lookup, asOf: number): Lookup => {
    if (lookup.kind === 'unknown') {
      real.delete(text)
      unknown.set(text, { lookup, asOf })
    } else {
      real.set(text, { lookup, asOf })
    }
    return lookup
  }
  /** The store is away. Whom it knew it knows still; an unknown key may have been made since. */
  const recall = (text: string): Lookup => {
    const last = real.get(text)?.lookup
    return last === undefined ? away : keep(text, last, changes)
  }
  const ask = (text: string): Lookup | Promise<Lookup> => {
    const asOf = changes
    try {
      const found = store.holder(hashKey(text))
      if (!(found instanceof Promise)) return keep(text, describe(found, plans), asOf)
      const answer = found.then(holder => keep(text, describe(holder, plans), asOf), () => recall(text))
        .finally(() => asking.delete(text))
      asking.set(text, answer)
      return answer
    } catch {
      return recall(text)
    }
  }
  const findNow = (text: string): Lookup | Promise<Lookup> => {
    const entry = real.get(text) ?? unknown.get(text)
    if (entry !== undefined && entry.asOf === changes) return entry.lookup
    return entry === undefined && !isKey(text) ? malformed : asking.get(text) ?? ask(text)
  }
  return {
    close,
    find(key) {
      const text = key.reveal()
      const looking = look()
      // Where nothing is remembered that may be out of date, there is nothing to wait for.
      return looking === undefined || !(real.has(text) || unknown.has(text)) ? findNow(text) : looking.then(() => findNow(text))
    },
  }
}

interface Entry {
  readonly lookup: Lookup
  /** How many changes were known of when the store was asked. */
  readonly asOf: number
}

/** By their sizes, each 1: what lru-cache keeps by `max` it makes room for at once, which took 8 ms of a start, and 2 MB. */
const keepUpTo = (most: number) => new LRUCache<string, Entry>({ maxSize: most, sizeCalculation: () => 1 })

/** Looks whether the store has changed, unless it did so lately; a promise only where it has to wait for that. */
const openLook = (store: AccountStore, clock: Clock, tell: { changed(): void, away(): void }): (() => Promise<void> | undefined) => {
  let last: number | undefined
  let until = -Infinity
  let looking: Promise<void> | undefined
  /** Undefined: the store is away. */
  const note = (count?: number) => {
    looking = undefined
    until = clock.monotonic() + fresh
    if (count === undefined) return tell.away()
    if (count !== last) tell.changed()
    last = count
  }
  return () => {
    if (looking !== undefined || clock.monotonic() < until) return looking
    try {
      const count = store.changes()
      if (count instanceof Promise) looking = count.then(note, () => note())
      else note(count)
    } catch {
      note()
    }
    return looking
  }
}

/** Half of the second within which changes must be seen, in ms. */
const fresh = 500
const malformed: Lookup = { kind: 'malformed' }
const away: Lookup = { kind: 'away' }

const describe = (holder: Holder | undefined, plans: Plans): Lookup => {
  if (holder === undefined) return { kind: 'unknown' }
  const { key, account } = holder
  if (key.revoked !== undefined) return { kind: 'revoked' }
  const plan = planFor(account, plans)
  if (plan === undefined) return { kind: 'planless', plan: account.plan }
  return { kind: 'granted', key, account: { id: account.id, name: account.name, plan } }
}

/** What the account gets: its plan, with the credits of its own if it has such. Undefined when the plan is gone. */
export const planFor = ({ plan: name, credits }: Pick<AccountRow, 'plan' | 'credits'>, plans: Plans): Plan | undefined => {
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined
  return plan && credits !== undefined ? { ...plan, dailyCredits: credits } : plan
}
