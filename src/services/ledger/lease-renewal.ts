import type { LeaseResponse } from '../../store/store.ts'
import { dayMs } from '../../util/dates.ts'
import { UnreturnedLeases } from './unreturned-leases.ts'
import { CachedBalance, retryDelayMs } from './cached-balance.ts'
import { Lease } from './lease.ts'
import type { LedgerClient } from './ledger-client.ts'
import type { RenewalSchedule, ScheduledRenewal } from './renewal-schedule.ts'
import { isWithinGrace } from './store-outage.ts'
import type { OutageGrace } from './store-outage.ts'

/** The charges to a lease. */
export interface LeaseUser {
  /** On the monotonic clock. */
  readonly lastChargedAt: number
  /** The calls that wait for credits, in their order. */
  readonly waiting: readonly { readonly cost: number }[]
  /** The store has responded to a request, or is unavailable. */
  onResponse(): void
  /** Nothing is leased, and nothing was charged for long. */
  onIdle(account: string): void
}

/** Keeps the lease of one account at the size that its calls need: requests and returns credits, and reports their use. */
export class LeaseRenewal implements ScheduledRenewal {
  readonly balance = new CachedBalance()
  /** Of the current day; another one from midnight on, and once it is stopped. */
  lease: Lease
  isStopped = false
  readonly #account: string
  readonly #client: LedgerClient
  readonly #schedule: RenewalSchedule
  readonly #user: LeaseUser
  readonly #sizing = new LeaseSizing()
  /** Undefined while no lease of the account has expired: most have none, and a process has thousands of accounts. */
  #unreturnedLeases: UnreturnedLeases | undefined
  /** Spent while the store was unavailable without a grant, and not on record when it last responded. */
  #overdrawn = 0
  #renewal: Promise<void> | undefined
  /** Of the last request, which may be in flight. */
  #response: Promise<LeaseResponse | undefined> | undefined
  #recalledAt = -Infinity
  #leasedShareBefore = 0

  constructor(account: string, client: LedgerClient, schedule: RenewalSchedule, user: LeaseUser) {
    this.#account = account
    this.#client = client
    this.#schedule = schedule
    this.#user = user
    this.lease = new Lease(client.dayBoundary.today(client.clock.monotonic()))
  }

  /** Requests credits, unless a request is in flight: its response is followed by another request where it brings too few. */
  request(): void {
    if (!this.isStopped) this.#renewal ??= this.#renew()
  }

  /** Before the lease is used up: together with other accounts, unless little is left. */
  requestSoon(now: number): void {
    // While the store is not asked, the use is reported by a later check: an account at rest has none.
    if (this.balance.isBackingOff(now)) this.scheduleChecks()
    else if (this.lease.available < this.lease.renewBelow / 2) this.request()
    else this.#schedule.requestSoon(this)
  }

  /** request() for a call that waits. */
  requestFor(cost: number): void {
    this.#sizing.recordWaitingCall(cost)
    this.request()
  }

  /** The plan has another limit. What was leased by a greater one is returned, and leased again as far as it is left; not while the store cannot be asked. */
  changeLimit(limit: number, now: number): void {
    const isLowered = limit < this.balance.limit
    this.balance.changeLimit(limit)
    if (isLowered && this.#client.outage.durationMs(now) === undefined) this.lease.release(this.lease.available)
  }

  /** Adds the missing credits to the lease, within the grace. No call waits for a store that may hang. */
  overdraw(missing: number, grace: OutageGrace, now: number): boolean {
    // Before the first response the day that would be charged is unknown.
    if (this.isStopped || this.lease.day < 0) return false
    if (!isWithinGrace(this.#overdrawn + missing, grace, this.#client.outage.durationMs(now))) return false
    this.#overdrawn += missing
    this.lease.overdraw(missing)
    if (!this.balance.isBackingOff(now)) this.request()
    this.scheduleChecks()
    return true
  }

  /** Another process of the gateway has too few credits for a call. Resolves once the store has those that are unused here, or is unavailable. */
  async returnUnused(): Promise<void> {
    // Calls that wait here are charged to it first: #renew() has awaited it before.
    await this.#response
    const { lease } = this
    if (this.isStopped || lease.available === 0) return
    lease.release(lease.available)
    await this.#client.requestLease(this.#account, lease, { minCredits: 0, desiredCredits: 0, limit: this.balance.limit })
    this.scheduleChecks()
  }

  /** A lease expires at midnight: its credits are not valid on the next day. */
  checkDay(now: number): void {
    if (this.#client.dayBoundary.today(now) !== this.lease.day) this.#beginDay(now)
  }

  /** Has check() called each second, until everything is returned and reported. */
  scheduleChecks(): void {
    if (!this.isStopped) this.#schedule.add(this)
  }

  check(now: number): boolean {
    if (this.#client.dayBoundary.today(now) !== this.lease.day) {
      this.#beginDay(now)
      // For the first call of the day, which has not come yet.
      if (!this.#isIdle(now) || this.#keptCredits(now) > 0) this.request()
    }
    if (!this.#areAllReturned) void this.#unreturnedLeases?.settle()
    // Of a store that is back, before the next call.
    const isMissed = this.balance.isStoreUnavailable && this.#client.outage.durationMs(now) === undefined
    if (this.#isIdle(now) ? !this.#isAtRest(now) : isMissed || this.lease.hasUnreportedUse) this.request()
    const isActive = !this.#isAtRest(now) || !this.#areAllReturned
    // The next call ends its rest, and is reported.
    if (!isActive) this.lease.renewBelow = this.lease.available
    return isActive
  }

  evict(now: number): boolean {
    this.checkDay(now)
    // An account that was never charged counts as idle for ever, and calls may wait for its first charge.
    if (this.#user.waiting.length > 0 || now - this.#user.lastChargedAt < leaseIdleTimeoutMs) return false
    const kept = this.#keptCredits(now)
    if (kept > 0 || this.lease.available > 0) {
      if (this.lease.available > kept || now - this.balance.updatedAt >= keptCheckMs) this.request()
      return false
    }
    if (!this.lease.isSettled || !this.#areAllReturned) return false
    this.isStopped = true
    // Refunds have no effect from now on: with its next charge the account gets another lease. The balance stays that of its last calls.
    this.lease = new Lease(this.lease.day)
    this.#user.onIdle(this.#account)
    return true
  }

  /** Requests no more credits, and returns those that are left. False: the store was unavailable. */
  async stop(): Promise<boolean> {
    this.isStopped = true
    // The request in flight still serves the calls that wait.
    await this.#renewal
    this.#schedule.remove(this)
    this.#replaceLease(this.lease.day)
    for (let attempts = 0; attempts < maxStopAttempts && !this.#areAllReturned; attempts += 1) await this.#unreturnedLeases?.settle()
    return this.#areAllReturned
  }

  /** Brings the lease to its target size, up or down, and reports its use. */
  async #renew(): Promise<void> {
    const { lease } = this
    const { limit } = this.balance
    let response = await (this.#response = this.#requestTarget(lease, limit))
    const isRecalled = response !== undefined && lease.available < this.#firstCost && this.#recallable(lease, response, limit) > 0
    if (isRecalled) {
      await this.#client.recall?.(this.#account)
      this.#recalledAt = this.#client.clock.monotonic()
      // In one step, and no more than for one call: of two processes that hold a part each of what a call needs, none could serve it.
      lease.release(lease.available)
      response = await (this.#response = this.#request(lease, this.#firstCost, limit))
    }
    this.#renewal = undefined
    this.#recordResponse(lease, response, limit, isRecalled)
    this.scheduleChecks()
    this.#user.onResponse()
    if (response !== undefined && this.lease.overdraft > 0) this.request()
  }

  async #requestTarget(lease: Lease, limit: number): Promise<LeaseResponse | undefined> {
    // The calls of a batch that follow in this turn share the request.
    await null
    const now = this.#client.clock.monotonic()
    const size = this.#targetSize(now)
    const target = now < this.#recalledAt + retryDelayMs ? Math.min(size, this.#firstCost) : size
    lease.release(Math.max(0, lease.available - target))
    return this.#request(lease, target, limit)
  }

  #request(lease: Lease, target: number, limit: number): Promise<LeaseResponse | undefined> {
    const minCredits = Math.max(0, this.#firstCost - lease.available)
    return this.#client.requestLease(this.#account, lease, { minCredits, desiredCredits: target - lease.available, limit })
  }

  /** What other processes have leased: those of the gateway return what they do not use. */
  #recallable(lease: Lease, { remaining }: LeaseResponse, limit: number): number {
    return this.#client.recall === undefined ? 0 : limit - remaining - lease.used - lease.available
  }

  get #firstCost(): number {
    return this.#user.waiting[0]?.cost ?? 0
  }

  #targetSize(now: number): number {
    this.#sizing.sampleUse(this.lease.usedSinceCreated, now)
    if (this.#isIdle(now)) {
      this.#sizing.resetRate()
      return this.#keptCredits(now)
    }
    const waitingCost = this.#user.waiting.reduce((sum, { cost }) => sum + cost, 0)
    return this.#sizing.targetSize(this.balance.limit, this.#client.horizonMs, waitingCost)
  }

  #recordResponse(lease: Lease, response: LeaseResponse | undefined, limit: number, isRecalled: boolean): void {
    const now = this.#client.clock.monotonic()
    this.balance.recordAvailability(response !== undefined, now)
    if (response === undefined) return
    this.#overdrawn = this.lease.overdraft
    // What was granted meanwhile by a greater limit, too.
    if (lease === this.lease && limit > this.balance.limit) lease.release(lease.available)
    // The day or the plan may have changed meanwhile.
    if (lease !== this.lease || limit !== this.balance.limit) return
    this.balance.update(response.remaining, now, isRecalled ? 0 : this.#recallable(lease, response, limit))
    // The first call of an idle account ends its rest.
    lease.renewBelow = this.#isIdle(now) ? lease.available : Math.floor(lease.available / 2)
  }

  #beginDay(now: number): void {
    this.#replaceLease(this.#client.dayBoundary.today(now))
    void this.#unreturnedLeases?.settle()
  }

  #replaceLease(today: number): void {
    this.#leasedShareBefore = this.#leasedShare
    if (!this.lease.isSettled) (this.#unreturnedLeases ??= new UnreturnedLeases(this.#account, this.#client)).add(this.lease)
    this.lease = new Lease(today)
    this.balance.startDay()
  }

  /** Nothing of the lease is to be returned or reported until the next charge. */
  #isAtRest(now: number): boolean {
    if (!this.lease.isReported) return false
    return this.lease.available === 0 || (this.#isIdle(now) && this.lease.available <= this.#keptCredits(now))
  }

  /** Of an idle account: for a day after its last call. */
  #keptCredits(now: number): number {
    if (this.#schedule.hasTooManyAccounts || now - this.#user.lastChargedAt >= dayMs) return 0
    return this.#sizing.keptSize(this.balance.remaining, this.#leasedShare, this.#client)
  }

  /** Of all that processes have leased of the day: the part of this one. Before it has leased any, that of the day before. */
  get #leasedShare(): number {
    const [own, all] = [this.lease.used + this.lease.available, this.balance.limit - this.balance.remaining]
    return own > 0 && all > 0 ? Math.min(1, own / all) : this.#leasedShareBefore
  }

  get #areAllReturned(): boolean {
    return this.#unreturnedLeases === undefined || this.#unreturnedLeases.isEmpty
  }

  /** Among many accounts each may call rarely, and a lease that nobody misses is kept for the next call; far from the store, in any case. */
  #isIdle(now: number): boolean {
    if (this.#user.waiting.length > 0) return false
    const isSmall = this.lease.available <= smallLeaseShare * this.balance.remaining
    const timeoutMs = isSmall && this.#schedule.hasManyAccounts ? smallLeaseIdleTimeoutMs : leaseIdleTimeoutMs
    return now - this.#user.lastChargedAt >= timeoutMs * (isSmall ? this.#client.distanceFactor : 1)
  }
}

/** The credits of an idle account are returned to the store after this time, but for those that it keeps. */
export const leaseIdleTimeoutMs = 2_000
export const smallLeaseIdleTimeoutMs = 60_000
/** Of what is left in the store. */
const smallLeaseShare = 1 / 500
/** How often the store is asked whether an idle account may keep its credits: not where few are left. */
const keptCheckMs = 3_600_000
/** A lost message must not cost credits. */
const maxStopAttempts = 3

/** How large a lease is to be: grows with the rate at which the account spends. */
class LeaseSizing {
  #creditsPerMs = 0
  #usedAtLastSample = 0
  #sampledAt = -Infinity
  #maxCost = 0

  /** A call of this cost had to wait for a lease. */
  recordWaitingCall(cost: number): void {
    this.#maxCost = Math.max(this.#maxCost, cost)
  }

  /** Takes the rate since the last sample, which counts as much as all samples before. `used` is that of the lease. */
  sampleUse(used: number, now: number): void {
    const elapsedMs = Math.max(now - this.#sampledAt, minSampleMs)
    this.#creditsPerMs = (this.#creditsPerMs + Math.max(0, used - this.#usedAtLastSample) / elapsedMs) / 2
    this.#usedAtLastSample = used
    this.#sampledAt = now
  }

  /** The account has been idle. */
  resetRate(): void {
    this.#creditsPerMs = 0
  }

  /**
   * What an idle account keeps, so that its next call does not wait: nothing near the store, else the credits of some calls, as far as these are few
   * of what is left in the store, which is negative where the limit was lowered. `leasedShare` is the part of this process of what all have leased:
   * where few of many processes are called, these keep more.
   */
  keptSize(remaining: number, leasedShare: number, { distanceFactor, liveProcesses }: LedgerClient): number {
    if (distanceFactor === 1) return 0
    const most = remaining * Math.min(maxKeptShare, maxKeptShareOfAll * Math.max(leasedShare, 1 / liveProcesses))
    return Math.max(0, Math.min(minCallsPerLease, Math.floor(most / Math.max(1, this.#maxCost)))) * this.#maxCost
  }

  /**
   * The credits that `horizonMs` use up, or that the waiting calls cost; at most 1 % of the day's limit, or one call. An account that calls rarely
   * gets more, up to 0.1 % of its day: its lease lasts for longer.
   */
  targetSize(limit: number, horizonMs: number, waitingCost: number): number {
    const maxSize = Math.max(Math.floor(limit / 100), this.#maxCost)
    const smallSize = Math.max(minCallsPerLease * this.#maxCost, Math.min(callsPerSmallLease * this.#maxCost, Math.floor(limit / 1_000)))
    return Math.min(maxSize, Math.max(smallSize, waitingCost, Math.ceil(this.#creditsPerMs * horizonMs)))
  }
}

/** Of one process; and of all together, once where it is shared equally, and once by what they have leased. */
const maxKeptShare = 1 / 500
const maxKeptShareOfAll = 1 / 200

/** While the rate is unknown: most accounts that begin to call go on. */
const minCallsPerLease = 8
const callsPerSmallLease = 64

/** A burst right after a response says little about the rate: its credits are spread over at least this time. */
const minSampleMs = 100
