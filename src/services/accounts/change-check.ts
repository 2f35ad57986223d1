import type { Clock } from '../clock.ts'
import type { KeyStore } from './lookup.ts'
import type { KeyLookups } from './key-lookups.ts'

/** Checks whether the store has changed, unless it was checked lately, and tells the caches. */
export class ChangeCheck {
  readonly #store: KeyStore
  readonly #clock: Clock
  readonly #lookups: readonly KeyLookups[]
  #lastCount: number | undefined
  #validUntil = -Infinity
  #checking: Promise<void> | undefined

  constructor(store: KeyStore, clock: Clock, lookups: readonly KeyLookups[]) {
    this.#store = store
    this.#clock = clock
    this.#lookups = lookups
  }

  /** Returns a promise only while it waits for the store. */
  run(): Promise<void> | undefined {
    const now = this.#clock.monotonic()
    if (this.#checking !== undefined || now < this.#validUntil) return this.#checking
    try {
      const count = this.#store.changeCount()
      if (count instanceof Promise) this.#checking = this.#awaitCount(count, now)
      else this.#recordCount(count, now)
    } catch {
      this.recordOutage()
    }
    return this.#checking
  }

  /** The store failed: stale results are valid until a later check succeeds. */
  recordOutage(): void {
    this.#validUntil = this.#clock.monotonic() + changeCheckIntervalMs
    for (const lookups of this.#lookups) lookups.setStoreAvailable(false)
  }

  async #awaitCount(count: Promise<number>, requestedAt: number): Promise<void> {
    try {
      this.#recordCount(await count, requestedAt)
    } catch {
      this.recordOutage()
    } finally {
      this.#checking = undefined
    }
  }

  /** The count may be as old as the request for it. */
  #recordCount(count: number, requestedAt: number): void {
    this.#validUntil = requestedAt + changeCheckIntervalMs
    const isChanged = count !== this.#lastCount
    for (const lookups of this.#lookups) {
      lookups.setStoreAvailable(true)
      if (isChanged) lookups.invalidate()
    }
    this.#lastCount = count
  }
}

/** Half of the second within which a change must take effect. */
const changeCheckIntervalMs = 500
