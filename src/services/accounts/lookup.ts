import type { Account, Key } from '../../plugin/call.ts'
import type { AccountStore } from '../../store/store.ts'

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
