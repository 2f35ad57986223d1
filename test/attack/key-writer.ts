import { setTimeout } from 'node:timers/promises'
import { generateAccountId, generateKeyId } from '../../src/services/accounts/api-key.ts'
import { systemClock } from '../../src/services/clock.ts'
import type { Store } from '../../src/store/store.ts'
import { waitUntil } from '../support/wait-until.ts'

/** Between two changes. */
const intervalMs = 100
/** So many keys later a key is revoked. */
const revokedAfter = 5

export interface KeyWriterResult {
  /** Keys and revocations that were acknowledged. */
  readonly acknowledged: number
  /** Those that the store does not have at the end. */
  readonly lost: number
}

/** An operator who adds keys and revokes them, all the time, and believes what the store says. */
export class KeyWriter {
  readonly #store: Store
  readonly #account = generateAccountId()
  readonly #added: string[] = []
  readonly #revoked: string[] = []
  #running: Promise<unknown> = Promise.resolve()
  #isStopping = false

  constructor(store: Store) {
    this.#store = store
  }

  async start(): Promise<void> {
    await this.#store.addAccount({ id: this.#account, name: 'operator', plan: 'operator', created: systemClock.now() })
    this.#running = this.#write()
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#running
  }

  async audit(): Promise<KeyWriterResult> {
    const rows = new Map((await this.#store.keys(this.#account)).map(row => [row.id, row]))
    const lostKeys = this.#added.filter(id => !rows.has(id))
    const lostRevocations = this.#revoked.filter(id => rows.has(id) && rows.get(id)?.revoked === undefined)
    return { acknowledged: this.#added.length + this.#revoked.length, lost: lostKeys.length + lostRevocations.length }
  }

  /** Resolves once a change that begins now has succeeded. */
  async untilWritable(): Promise<void> {
    const before = this.#added.length
    await waitUntil(() => this.#added.length > before + 1)
  }

  async #write(): Promise<void> {
    while (!this.#isStopping) {
      await this.#change().catch(() => undefined)
      await setTimeout(intervalMs)
    }
  }

  async #change(): Promise<void> {
    const id = generateKeyId()
    await this.#store.addKey(`hash of ${id}`, { id, account: this.#account, created: systemClock.now(), hint: 'none' })
    this.#added.push(id)
    const old = this.#added.at(-1 - revokedAfter)
    if (old !== undefined && (await this.#store.revokeKey(old, systemClock.now())) !== undefined) this.#revoked.push(old)
  }
}
