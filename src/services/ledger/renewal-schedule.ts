import { dayMs } from '../../util/dates.ts'
import type { Clock, Timer } from '../clock.ts'
import type { LedgerClient } from './ledger-client.ts'

/** What an account has to do by the clock. */
export interface ScheduledRenewal {
  request(): void
  /** Requests what is due. False: nothing is to be returned or reported until the next charge. */
  check(now: number): boolean
  /** Called when check() was false ten minutes ago, and as often again; and within a minute of midnight. False: the account is in use, or keeps credits. */
  evict(now: number): boolean
}

/**
 * Runs the checks and renewals of all accounts of a process on one timer, so that the store writes those of one tick together: a commit of LMDB
 * costs as much as a hundred requests. Accounts at rest take no time.
 */
export class RenewalSchedule {
  readonly #client: LedgerClient
  readonly #clock: Clock
  readonly #due = new Set<ScheduledRenewal>()
  /** By the time of the last check, in this order. */
  readonly #active = new Map<ScheduledRenewal, number>()
  /** At rest, by the time since then, in this order. */
  readonly #resting = new Map<ScheduledRenewal, number>()
  #timer: Timer | undefined
  /** Infinity while the timer is not set. */
  #timerDelayMs = Infinity
  #evictedAt = -Infinity
  /** That of the last tick; -1 before. */
  #day = -1

  constructor(client: LedgerClient) {
    this.#client = client
    this.#clock = client.clock
  }

  /** So many accounts are active that checks are more seldom: up to ten times with 2,000 accounts and more. */
  get hasManyAccounts(): boolean {
    return this.#active.size > checksPerSecond
  }

  /** So many that none keeps credits while it is idle: each takes 0.7 kB, and a stop returns the credits of 500 in each round trip. */
  get hasTooManyAccounts(): boolean {
    return this.#active.size + this.#resting.size > maxAccounts
  }

  /** Has the account request credits at the next tick. */
  requestSoon(account: ScheduledRenewal): void {
    this.#due.add(account)
    this.#schedule()
  }

  /** Has the account checked each second, or more seldom among many, until it is at rest. */
  add(account: ScheduledRenewal): void {
    if (this.#active.has(account)) return
    this.#resting.delete(account)
    this.#active.set(account, this.#clock.monotonic())
    this.#schedule()
  }

  remove(account: ScheduledRenewal): void {
    for (const accounts of [this.#due, this.#active, this.#resting]) accounts.delete(account)
    if (this.#due.size + this.#active.size + this.#resting.size > 0) return
    this.#timer?.cancel()
    this.#timerDelayMs = Infinity
  }

  #schedule(): void {
    const isActive = this.#due.size > 0 || this.#active.size > 0
    const delayMs = isActive ? tickMs : this.#resting.size > 0 ? evictionCheckMs : Infinity
    if (this.#timerDelayMs <= delayMs) return
    this.#timer?.cancel()
    this.#timerDelayMs = delayMs
    this.#timer = this.#clock.after(delayMs, () => this.#tick())
  }

  #tick(): void {
    this.#timerDelayMs = Infinity
    const now = this.#clock.monotonic()
    for (const account of this.#due) account.request()
    this.#due.clear()
    this.#checkActive(now)
    this.#evictResting(now)
    this.#schedule()
  }

  /**
   * A part of the accounts in each tick, so that those of a burst do not stop the event loop later. In the first tick of a day those of a second are due
   * at once: their leases have expired, and each call waits until there is another.
   */
  #checkActive(now: number): void {
    const { size } = this.#active
    const day = this.#client.dayBoundary.today(now)
    const hasDayBegun = this.#day >= 0 && day !== this.#day
    this.#day = day
    const checkIntervalMs = Math.min(Math.max(minCheckIntervalMs, (size * 1_000) / checksPerSecond), maxCheckIntervalMs)
    // Not those that this tick has checked.
    const dueAfterMs = hasDayBegun ? 1 : checkIntervalMs
    let checksLeft = hasDayBegun ? checksPerSecond : Math.ceil((Math.max(size, checksPerSecond) * tickMs) / checkIntervalMs)
    for (const [account, checkedAt] of this.#active) {
      if (checksLeft === 0 || now - checkedAt < dueAfterMs) return
      checksLeft -= 1
      this.#active.delete(account)
      if (account.check(now)) this.#active.set(account, now)
      else this.#resting.set(account, now)
    }
  }

  /** After midnight all are due, as what they keep is of the day that is over: a part of them in each tick, so that the store is not asked for all at once. */
  #evictResting(now: number): void {
    const { size } = this.#resting
    let evictionsLeft = Math.min(size, (now - this.#evictedAt) * Math.max(size / evictAllMs, checksPerSecond / 1_000))
    this.#evictedAt = now
    // Credits are kept until the store can be asked again.
    if (this.#client.outage.durationMs(now) !== undefined) return
    const dayBeganAt = this.#client.dayBoundary.midnightAt - dayMs
    const dueSince = Math.max(now - evictAfterMs, dayBeganAt <= now ? dayBeganAt : -Infinity)
    for (const [account, since] of this.#resting) {
      if (since > dueSince || evictionsLeft <= 0) return
      evictionsLeft -= 1
      this.#resting.delete(account)
      if (!account.evict(now)) this.#resting.set(account, now)
    }
  }
}

const tickMs = 100
export const minCheckIntervalMs = 1_000
export const maxCheckIntervalMs = 10_000
export const checksPerSecond = 200
const maxAccounts = 20_000
/** Nothing is lost: the store has the day's use on record, and its first response brings it back. */
const evictAfterMs = 600_000
const evictAllMs = 60_000
const evictionCheckMs = 5_000
