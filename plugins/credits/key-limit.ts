import { getOrCreate, thenMaybe } from '../../src/plugin/internal.ts'
import type { ChargeResult, CreditQuota, KeyChargeResult, Ledger, MaybePromise, OutageGrace } from '../../src/plugin/internal.ts'
import type { Account, CallContext, Key } from '../../src/plugin/plugin.ts'

export type SuccessfulCharge = Extract<ChargeResult, { kind: 'charged' }>

/**
 * Charges the daily limit of the key, and then the account. The day of a key is a ledger of its own under the id of the key, so that it is
 * as exact as that of an account.
 */
export const chargeKeyAndAccount = (
  ledger: Ledger,
  { account, key }: Pick<CallContext, 'account' | 'key'>,
  cost: number,
  grace: OutageGrace | undefined,
): MaybePromise<KeyChargeResult> =>
  thenMaybe(ledger.charge(getOrCreate(keyLedgers, key, toLedgerAccount), cost, grace), keyCharge => {
    if (keyCharge.kind !== 'charged') return { ...keyCharge, isKeyLimit: true }
    return thenMaybe(ledger.charge(account, cost, grace), accountCharge => {
      if (accountCharge.kind === 'charged') return new AccountAndKeyCharge(accountCharge, keyCharge)
      keyCharge.refund()
      return accountCharge
    })
  })

/** A key stays the same object while it is cached. */
const keyLedgers = new WeakMap<Key, Account>()

const toLedgerAccount = ({ id, dailyCredits = 0 }: Key): Account => ({
  id,
  name: id,
  plan: { name: 'key', dailyCredits, forwarding: false },
})

class AccountAndKeyCharge implements SuccessfulCharge {
  readonly kind = 'charged'
  readonly #account: SuccessfulCharge
  readonly #key: SuccessfulCharge

  constructor(account: SuccessfulCharge, key: SuccessfulCharge) {
    this.#account = account
    this.#key = key
  }

  get day(): number {
    return this.#account.day
  }

  /** Of the two, the one that is used up first. */
  get quota(): CreditQuota {
    return this.#key.quota.remaining < this.#account.quota.remaining ? this.#key.quota : this.#account.quota
  }

  refund(credits?: number): boolean {
    this.#key.refund(credits)
    return this.#account.refund(credits)
  }
}
