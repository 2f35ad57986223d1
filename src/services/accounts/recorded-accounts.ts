import { isDeepStrictEqual } from 'node:util'
import { retryCommit } from '../../store/engine.ts'
import type { RecordStore } from '../../store/record-store.ts'
import { StoreError, applyChange } from '../../store/store.ts'
import type { AccountChange, AccountRow, AccountStore, KeyChange, KeyRow } from '../../store/store.ts'
import type { Json } from '../../util/json.ts'
import type { Clock } from '../clock.ts'
import { createKey, rotateKey } from './api-key.ts'
import type { CreatedKey } from './api-key.ts'
import { recordChange } from './change-history.ts'
import type { ChangeAction, ChangeAuthor, NewChange } from './change-history.ts'

export type RecordedStore = Omit<AccountStore, 'subscribe'> & RecordStore

/** Changes accounts and keys, each with an entry in the log of changes: for commands, the dashboard and the admin listener. What changes nothing has none. */
export class RecordedAccounts {
  readonly #store: RecordedStore
  readonly #clock: Clock
  readonly author: ChangeAuthor

  constructor(store: RecordedStore, clock: Clock, author: ChangeAuthor) {
    this.#store = store
    this.#clock = clock
    this.author = author
  }

  /** False when another account has the name. */
  async addAccount(account: AccountRow): Promise<boolean> {
    if (!(await this.#store.addAccount(account))) return false
    const { id, name, created: _, declared: __, ...after } = account
    await this.record({ action: 'account-added', account: { id, name }, after })
    return true
  }

  /** False, and nothing is written, when the account is not as it was found any more. What an apply has declared is in no log. */
  async changeFoundAccount(found: AccountRow, change: AccountChange): Promise<boolean> {
    if (!(await this.#store.changeFoundAccount(found, change))) return false
    const { declared: _, ...recorded } = change
    const difference = differenceOf(found, recorded)
    if (difference !== undefined)
      await this.record({ action: 'account-changed', account: { id: found.id, name: found.name }, ...difference })
    return true
  }

  /** False, and nothing is written, when another account has the name, or had it, or when the account is not as it was found any more. */
  async renameAccount(found: AccountRow, name: string): Promise<boolean> {
    if (!(await this.#store.renameAccount(found, name))) return false
    const { id } = found
    await this.record({ action: 'account-changed', account: { id, name }, before: { name: found.name }, after: { name } })
    return true
  }

  /** Of the account as it is now: nothing that others change meanwhile is lost. Undefined when there is no account with this id. */
  async changeAccount(id: string, change: AccountChange): Promise<AccountRow | undefined> {
    return retryCommit(async () => {
      const found = await this.#store.account(id)
      const difference = found && differenceOf(found, change)
      if (found === undefined || difference === undefined) return { result: found }
      const isDone = await this.changeFoundAccount(found, difference.after)
      return isDone ? { result: applyChange<AccountRow>(found, difference.after) } : undefined
    })
  }

  async createKey(account: string, settings?: KeyChange): Promise<CreatedKey> {
    const created = await createKey(this.#store, this.#clock, account, settings)
    await this.#recordKey('key-created', created.row, { after: { ...settings } as Record<string, Json> })
    return created
  }

  /** A new key with the settings of the rotated one, which is accepted for `overlapMs` more. */
  async rotateKey(rotated: KeyRow, overlapMs: number): Promise<CreatedKey> {
    const created = await rotateKey(this.#store, this.#clock, rotated, overlapMs)
    await this.#recordKey('key-created', created.row, { after: { rotated: rotated.id } })
    return created
  }

  /** Undefined when there is no key with this id. */
  async changeKey(id: string, change: KeyChange): Promise<KeyRow | undefined> {
    const known = (await this.#store.findKeyById(id))?.key
    if (known === undefined) return undefined
    const difference = differenceOf(known, change)
    if (difference === undefined) return known
    const row = await this.#store.changeKey(id, difference.after)
    if (row !== undefined) await this.#recordKey('key-changed', row, difference)
    return row
  }

  /** Undefined when there is no key with this id. */
  async revokeKey(id: string): Promise<KeyRow | undefined> {
    const known = (await this.#store.findKeyById(id))?.key
    if (known === undefined || known.revoked !== undefined) return known
    const row = await this.#store.revokeKey(id, this.#clock.now())
    if (row !== undefined) await this.#recordKey('key-revoked', row)
    return row
  }

  /** A change of what belongs to an account. */
  async recordOf(account: string, change: Omit<NewChange, 'account'>): Promise<void> {
    const { id, name } = (await this.#store.account(account)) ?? { id: account, name: '' }
    await this.record({ ...change, account: { id, name } })
  }

  /** The log of changes has another tag in the store than accounts and keys: no commit writes both. */
  async record(change: NewChange): Promise<void> {
    try {
      await recordChange(this.#store, this.#clock, this.author, change)
    } catch (cause) {
      if (!(cause instanceof StoreError)) throw cause
      throw new StoreError(`the change is made (${change.action}), but it is missing in the log of changes: ${cause.message}`, { cause })
    }
  }

  #recordKey(action: ChangeAction, { id: target, account }: KeyRow, values?: Pick<NewChange, 'before' | 'after'>): Promise<void> {
    return this.recordOf(account, { action, target, ...values })
  }
}

/**
 * What a change sets that the row does not have yet, and the values before; undefined where that is nothing, which is neither written nor
 * recorded. A suspension keeps the time at which it began.
 */
const differenceOf = <Change extends object>(known: Partial<Change>, change: Change) => {
  const isSet = (name: string, value: unknown): boolean => {
    const before = known[name as keyof Change] ?? null
    return !isDeepStrictEqual(before, value) && !(name === 'suspended' && before !== null && value !== null)
  }
  const members = Object.entries(change).filter(([name, value]) => value !== undefined && isSet(name, value))
  if (members.length === 0) return undefined
  const before = members.map(([name]) => [name, known[name as keyof Change] ?? null])
  // Members of accounts and keys are plain data.
  return { before: Object.fromEntries(before) as Record<string, Json>, after: Object.fromEntries(members) as Change & Record<string, Json> }
}
