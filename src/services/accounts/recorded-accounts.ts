import type { RecordStore } from '../../store/record-store.ts'
import type { AccountChange, AccountRow, AccountStore, KeyChange, KeyRow } from '../../store/store.ts'
import type { Clock } from '../clock.ts'
import { recordChange } from './change-history.ts'
import type { ChangeAction, ChangeAuthor, NewChange } from './change-history.ts'
import { createKey, rotateKey } from './api-key.ts'
import type { CreatedKey } from './api-key.ts'

export type RecordedStore = AccountStore & RecordStore

/** Changes accounts and keys, each with an entry in the log of changes: for commands, the dashboard and the admin listener. */
export class RecordedAccounts {
  readonly #store: RecordedStore
  readonly #clock: Clock
  readonly #author: ChangeAuthor

  constructor(store: RecordedStore, clock: Clock, author: ChangeAuthor) {
    this.#store = store
    this.#clock = clock
    this.#author = author
  }

  /** False when another account has the name. */
  async addAccount(account: AccountRow): Promise<boolean> {
    if (!(await this.#store.addAccount(account))) return false
    const { id, name, created: _, ...after } = account
    await this.#record({ action: 'account-added', account: { id, name }, after })
    return true
  }

  /** Undefined when there is no account with this id. */
  async changeAccount(id: string, change: AccountChange): Promise<AccountRow | undefined> {
    const known = await this.#store.account(id)
    const changed = await this.#store.changeAccount(id, change)
    if (changed === undefined || known === undefined) return undefined
    const before = Object.fromEntries(Object.keys(change).map(member => [member, known[member as keyof AccountChange] ?? null]))
    await this.#record({ action: 'account-changed', account: { id, name: changed.name }, before, after: { ...change } })
    return changed
  }

  async createKey(account: string, settings?: KeyChange): Promise<CreatedKey> {
    const created = await createKey(this.#store, this.#clock, account, settings)
    await this.#recordKey('key-created', created.row, { ...settings })
    return created
  }

  /** A new key with the settings of the rotated one, which is accepted for `overlapMs` more. */
  async rotateKey(rotated: KeyRow, overlapMs: number): Promise<CreatedKey> {
    const created = await rotateKey(this.#store, this.#clock, rotated, overlapMs)
    await this.#recordKey('key-created', created.row, { rotated: rotated.id })
    return created
  }

  /** Undefined when there is no key with this id. */
  async changeKey(id: string, change: KeyChange): Promise<KeyRow | undefined> {
    const row = await this.#store.changeKey(id, change)
    if (row !== undefined) await this.#recordKey('key-changed', row, { ...change })
    return row
  }

  /** Undefined when there is no key with this id. */
  async revokeKey(id: string): Promise<KeyRow | undefined> {
    const row = await this.#store.revokeKey(id, this.#clock.now())
    if (row !== undefined) await this.#recordKey('key-revoked', row)
    return row
  }

  /** A change of what belongs to an account. */
  async recordOf(account: string, change: Omit<NewChange, 'account'>): Promise<void> {
    const { id, name } = (await this.#store.account(account)) ?? { id: account, name: '' }
    await this.#record({ ...change, account: { id, name } })
  }

  #record(change: NewChange): Promise<void> {
    return recordChange(this.#store, this.#clock, this.#author, change)
  }

  #recordKey(action: ChangeAction, { id: target, account }: KeyRow, after?: object): Promise<void> {
    // Members of keys are plain data.
    return this.recordOf(account, { action, target, ...(after !== undefined && { after: after as NonNullable<NewChange['after']> }) })
  }
}
