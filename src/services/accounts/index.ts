import type { Plan } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import type { AccountRow, KeyWithAccount } from '../../store/store.ts'
import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { deepFreeze } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import { isJwt } from '../jwt/index.ts'
import type { RunningJwt } from '../jwt/index.ts'
import { hashApiKey, isWellFormedKey, keyRefusal } from './api-key.ts'
import { ChangeCheck, KeyLookups } from './key-lookups.ts'
import type { KeyStore, Lookup } from './key-lookups.ts'

export type { KeyStore, Lookup } from './key-lookups.ts'

export interface Accounts {
  /**
   * The account of the key, or of the key that a token (JWT) in its place names. A change in the store (a revoked key, another plan) takes
   * effect within 1 s.
   */
  find(key: Secret): MaybePromise<Lookup>
}

/** For the host; plugins get find() alone. */
export interface ReloadableAccounts extends Accounts {
  /** A reload has changed the plans: every account has its new plan with its next call. */
  setPlans(plans: Plans): void
}

export type Plans = Readonly<Record<string, Plan>>

/**
 * Looks up keys in the store and caches the results until accounts or keys change there. Whether they have changed is
 * checked for all keys at once, about twice a second while keys are looked up. Subscribes to the store until it is closed.
 * Without a verifier of tokens, a token is a malformed key.
 */
export const openAccounts = (store: KeyStore, initialPlans: Plans, clock: Clock, jwt?: RunningJwt): ReloadableAccounts => {
  let plans = initialPlans
  const shared = {
    toLookup: (row: KeyWithAccount | undefined) => toLookup(row, plans),
    onOutage: () => changeCheck.recordOutage(),
  }
  const byText = new KeyLookups({ ...shared, read: keyText => store.findKey(hashApiKey(keyText)) })
  // Apart: the id of a key must not be accepted in place of the key.
  const byId = new KeyLookups({ ...shared, read: id => store.findKeyById(id) })
  const invalidate = () => {
    byText.invalidate()
    byId.invalidate()
  }
  store.subscribe(invalidate)
  const changeCheck = new ChangeCheck(store, clock, [byText, byId])

  const findByText = (text: string): MaybePromise<Lookup> => {
    const cached = byText.getCached(text)
    if (cached !== undefined) return cached
    return !byText.has(text) && !isWellFormedKey(text) ? findByToken(text) : byText.find(text)
  }
  const findByToken = (text: string): MaybePromise<Lookup> => {
    const verifier = isJwt(text) ? jwt?.verifier : undefined
    if (verifier === undefined) return malformedKey
    return thenMaybe(verifier.verify(text), result => {
      if (result.kind !== 'verified') return result
      const checking = byId.has(result.keyId) ? changeCheck.run() : undefined
      return thenMaybe(checking, () =>
        thenMaybe(byId.find(result.keyId), lookup => {
          if (lookup.kind !== 'unknown') return lookup
          verifier.recordUnknownKey(result.keyId)
          return invalidToken
        }),
      )
    })
  }
  const refuseIfExpired = (lookup: Lookup) => refuseExpired(lookup, clock)
  return {
    setPlans(next) {
      plans = next
      invalidate()
    },
    find(key) {
      const text = key.reveal()
      const checking = changeCheck.run()
      // A key that is not cached is read from the store anyway: it need not wait for the check.
      return thenMaybe(checking && byText.has(text) ? checking : undefined, () => thenMaybe(findByText(text), refuseIfExpired))
    },
  }
}

const malformedKey: Lookup = { kind: 'malformed' }
const expiredKey: Lookup = { kind: 'expired' }
const invalidToken: Lookup = { kind: 'tokenInvalid' }

/** A cached key may have expired since. */
const refuseExpired = (lookup: Lookup, clock: Clock): Lookup =>
  lookup.kind === 'granted' && lookup.key.expires !== undefined && lookup.key.expires <= clock.now() ? expiredKey : lookup

const toLookup = (row: KeyWithAccount | undefined, plans: Plans): Lookup => {
  if (row === undefined) return { kind: 'unknown' }
  const { key, account } = row
  const refusal = keyRefusal(key, -Infinity) // whether it has expired is checked at each call
  if (refusal !== undefined) return { kind: refusal }
  if (account.suspended !== undefined) return { kind: 'accountSuspended' }
  const plan = effectivePlan(account, plans)
  if (plan === undefined) return { kind: 'planNotFound', plan: account.plan }
  return deepFreeze({ kind: 'granted', key, account: { id: account.id, name: account.name, plan } }) // all calls of the key get these objects
}

/** The account's plan, with the credits of the account's own if it has such. Undefined when gateway.yaml has no such plan. */
export const effectivePlan = ({ plan: name, credits }: Pick<AccountRow, 'plan' | 'credits'>, plans: Plans): Plan | undefined => {
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined
  return plan && credits !== undefined ? { ...plan, dailyCredits: credits } : plan
}
