import type { Secret } from '../../plugin/secret.ts'
import { changeGroupOf } from '../../store/store.ts'
import type { KeyWithAccount } from '../../store/store.ts'
import { thenMaybe } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { deepFreeze } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import type { RunningJwt } from '../jwt/index.ts'
import { isJwt } from '../../util/key-mask.ts'
import { hashApiKey, isWellFormedKey, keyRefusal } from './api-key.ts'
import { effectivePlan } from './effective-plan.ts'
import type { Plans } from './effective-plan.ts'
import { ChangeCheck, LookupCache, openKeyLookups } from './key-lookups.ts'
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

interface AccountsOptions {
  /** Without it, a token is a malformed key. */
  readonly jwt?: RunningJwt
  /** Called with each check for changes: whether the store has lost its accounts and keys. */
  onEmptied?(isEmptied: boolean): void
}

/**
 * Looks up keys in the store and caches the results until accounts or keys change there; while the store is unavailable, results are used
 * however old they are. Whether accounts or keys have changed is checked for all keys at once, about twice a second while keys are looked
 * up. Subscribes to the store until it is closed.
 */
export const openAccounts = (
  store: KeyStore,
  initialPlans: Plans,
  clock: Clock,
  { jwt, onEmptied = () => undefined }: AccountsOptions = {},
): ReloadableAccounts => {
  let plans = initialPlans
  // Apart: the id of a key must not be accepted in place of the key.
  const [byText, byId] = [new LookupCache(), new LookupCache()]
  const readStale = (): void => {
    for (const text of byText.staleKeys(maxRefreshedKeys)) void readByText(text)
    for (const id of byId.staleKeys(maxRefreshedKeys)) void readById(id)
  }
  const changeCheck = new ChangeCheck(store, clock, [byText, byId], { readStale, onEmptied })
  const shared = {
    toLookup: (row: KeyWithAccount | undefined) => toLookup(row, plans),
    onOutage: (error: unknown) => changeCheck.recordOutage(error),
    // Where it fails, the next look-up revokes it again.
    revokeAgain: (id: string) => void store.revokeKey(id, clock.now()).catch(() => undefined),
  }
  const readByText = openKeyReader({ ...shared, cache: byText, read: text => store.findKey(hashApiKey(text)) })
  const readById = openKeyReader({ ...shared, cache: byId, read: id => store.findKeyById(id) })
  store.subscribe(group => changeCheck.invalidate([group]))

  const findByToken = (text: string): MaybePromise<Lookup> => {
    const verifier = isJwt(text) ? jwt?.verifier : undefined
    if (verifier === undefined) return malformedKey
    return thenMaybe(verifier.verify(text), result => {
      if (result.kind !== 'verified') return result
      const { keyId } = result
      const checking = byId.has(keyId) ? changeCheck.run() : undefined
      return thenMaybe(checking, () =>
        thenMaybe(byId.get(keyId) ?? readById(keyId), lookup => {
          if (lookup.kind !== 'unknown') return lookup
          verifier.recordUnknownKey(keyId)
          return invalidToken
        }),
      )
    })
  }
  const findUncached = (text: string) => (!byText.has(text) && !isWellFormedKey(text) ? findByToken(text) : readByText(text))
  return {
    setPlans(next) {
      plans = next
      changeCheck.invalidate([undefined])
    },
    find: openKeyLookups({ cache: byText, changeCheck, clock, findUncached }),
  }
}

/** After one check for changes: a change of all accounts must not have all keys read at once. */
const maxRefreshedKeys = 100

const malformedKey: Lookup = { kind: 'malformed' }
const revokedKey: Lookup = { kind: 'revoked' }
const invalidToken: Lookup = { kind: 'tokenInvalid' }

interface KeyReaderOptions {
  readonly cache: LookupCache
  /** Reads the key from the store. */
  read(text: string): MaybePromise<KeyWithAccount | undefined>
  toLookup(row: KeyWithAccount | undefined): Lookup
  /** The store could not be read. */
  onOutage(error: unknown): void
  /** Writes a revocation that the store has lost. */
  revokeAgain(keyId: string): void
}

/** Reads keys into the cache. Calls that ask for the same key share a read. */
const openKeyReader = ({ cache, read, toLookup, onOutage, revokeAgain }: KeyReaderOptions): ((text: string) => MaybePromise<Lookup>) => {
  const pending = new Map<string, PendingRead>()
  const useStale = (text: string, error: unknown): Lookup => {
    onOutage(error)
    return cache.getStale(text)
  }
  const start = (text: string): MaybePromise<Lookup> => {
    const { version } = cache
    const cacheLookup = (row: KeyWithAccount | undefined) => {
      const lookup = toLookup(row)
      const group = row && changeGroupOf(row.account.id)
      if (row === undefined || lookup.kind === 'revoked' || !cache.isRevoked(text, version)) return cache.set(text, lookup, version, group)
      // Nothing makes a revoked key valid again: a replica without the last writes has taken the place of its primary.
      revokeAgain(row.key.id)
      return cache.set(text, revokedKey, version, group)
    }
    try {
      const row = read(text)
      if (!(row instanceof Promise)) return cacheLookup(row)
      const lookup = row
        .then(cacheLookup, (error: unknown) => useStale(text, error))
        .finally(() => {
          if (pending.get(text)?.lookup === lookup) pending.delete(text)
        })
      pending.set(text, { lookup, version })
      return lookup
    } catch (error) {
      return useStale(text, error)
    }
  }
  return text => {
    const current = pending.get(text)
    // A read that began before a change may return what was stored before it: then the key is read again.
    return current?.version === cache.version ? current.lookup : start(text)
  }
}

/** A read of a key that is in flight, and the version of the cache when it began. */
interface PendingRead {
  readonly lookup: Promise<Lookup>
  readonly version: number
}

const toLookup = (row: KeyWithAccount | undefined, plans: Plans): Lookup => {
  if (row === undefined) return { kind: 'unknown' }
  const { key, account } = row
  const refusal = keyRefusal(key, -Infinity) // whether it has expired is checked at each call
  if (refusal !== undefined) return { kind: refusal }
  if (account.suspended !== undefined) return { kind: 'accountSuspended' }
  const plan = effectivePlan(account, plans)
  if (plan === undefined) return { kind: 'planNotFound', plan: account.plan }
  const { name, requestLog } = account
  return deepFreeze({ kind: 'granted', key, account: { id: key.account, name, plan, ...(requestLog && { requestLog }) } }) // all calls of the key get these objects
}
