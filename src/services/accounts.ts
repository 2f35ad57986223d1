import type { Plan } from '../call.ts'
import { hashKey, isKey } from '../keys.ts'
import type { Secret } from '../secret.ts'
import type { AccountRow, AccountStore, Holder } from '../store/store.ts'
import { Lookups } from './accounts/lookups.ts'
import type { Lookup } from './accounts/lookups.ts'
import type { Clock } from './clock.ts'

export type { Lookup } from './accounts/lookups.ts'

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
  const lookups = new Lookups()
  const asking = new Map<string, Promise<Lookup>>()
  store.watch(() => lookups.outdate())
  const look = openLook(store, clock, { changed: () => lookups.outdate(), away: () => lookups.forgetUnknown() })

  const ask = (text: string): Lookup | Promise<Lookup> => {
    const asOf = lookups.changes
    const learn = (holder: Holder | undefined) => lookups.keep(text, describe(holder, plans), asOf)
    try {
      const found = store.holder(hashKey(text))
      if (!(found instanceof Promise)) return learn(found)
      const answer = found.then(learn, () => lookups.recall(text)).finally(() => asking.delete(text))
      asking.set(text, answer)
      return answer
    } catch {
      return lookups.recall(text)
    }
  }
  const findNow = (text: string): Lookup | Promise<Lookup> => {
    const known = lookups.find(text)
    if (known !== undefined) return known
    return !lookups.has(text) && !isKey(text) ? malformed : (asking.get(text) ?? ask(text))
  }
  return {
    find(key) {
      const text = key.reveal()
      const looking = look()
      // Where nothing is remembered that may be out of date, there is nothing to wait for.
      return looking === undefined || !lookups.has(text) ? findNow(text) : looking.then(() => findNow(text))
    },
  }
}

/** Looks whether the store has changed, unless it did so lately; a promise only where it has to wait for that. */
const openLook = (store: AccountStore, clock: Clock, tell: { changed(): void; away(): void }): (() => Promise<void> | undefined) => {
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
