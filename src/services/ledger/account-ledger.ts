import type { LeaseResponse } from '../../store/store.ts'
import type { Timer } from '../clock.ts'
import { CachedBalance, Lease, LeaseCharge } from './lease.ts'
import type { ChargeResult, RefundableQuota } from './lease.ts'
import { LeaseSizing } from './lease-sizing.ts'
import { ExpiredLeases } from './expired-leases.ts'
import type { LedgerClient } from './ledger-client.ts'
import { Overdraft, noGrace } from './store-outage.ts'
import type { OutageGrace } from './store-outage.ts'
import { dayMs } from '../../util/dates.ts'

/** The credits of one account in one process: the current lease, the calls that wait for credits, and the request for them. */
export class AccountLedger implements RefundableQuota {
  readonly #account: string
  readonly #client: LedgerClient
  readonly #onIdle: () => void
  readonly #sizing = new LeaseSizing()
  /** First come, first charged: a batch is charged in order of position. */
  readonly #waiting: WaitingCharge[] = []
  readonly #expiredLeases: ExpiredLeases
  readonly #balance = new CachedBalance()
  readonly #overdraft = new Overdraft()
  #lease: Lease
  /** Below this the lease is renewed. */
  #renewBelow = 0
  #lastChargedAt = -Infinity
  #renewal: Promise<void> | undefined
  #timer: Timer | undefined
  /** Infinity while the timer is not set. */
  #timerDelayMs = Infinity
  #isStopped = false

  constructor(account: string, client: LedgerClient, onIdle: () => void) {
    this.#account = account
    this.#client = client
    this.#onIdle = onIdle
    this.#expiredLeases = new ExpiredLeases(account, client)
    this.#lease = new Lease(client.today(client.clock.monotonic()))
  }

  /** While the lease has credits: without a promise, and creating only the result. 70 ns, most of them for the clock. */
  charge(limit: number, cost: number, grace: OutageGrace = noGrace): ChargeResult | Promise<ChargeResult> {
    if (!Number.isSafeInteger(cost) || cost < 0) throw new RangeError(`a cost must be an integer of 0 or more, not ${cost}`)
    const now = this.#client.clock.monotonic()
    const isFastPath = this.#waiting.length === 0 && limit === this.limit && this.#lease.day === this.#client.today(now)
    return isFastPath && this.#lease.available >= cost ? this.#chargeLease(cost, now) : this.#chargeOrWait(limit, { cost, grace }, now)
  }

  refund(lease: Lease, cost: number): boolean {
    if (lease !== this.#lease) return false
    lease.available += cost
    this.#scheduleTick()
    return true
  }

  get limit(): number {
    return this.#balance.limit
  }

  get remaining(): number {
    return Math.min(Math.max(0, this.#balance.remaining + this.#lease.available), this.limit)
  }

  get resetsInMs(): number {
    return this.#client.dayEndsInMs(this.#client.clock.monotonic())
  }

  /** Requests no more credits, and returns those that are left. False: the store was unavailable. */
  async stop(): Promise<boolean> {
    this.#isStopped = true
    // The request in flight still serves the calls that wait.
    await this.#renewal
    this.#timer?.cancel()
    this.#replaceLease(this.#lease.day)
    for (let attempts = 0; attempts < maxStopAttempts && !this.#expiredLeases.isEmpty; attempts += 1) await this.#expiredLeases.settle()
    return this.#expiredLeases.isEmpty
  }

  #chargeLease(cost: number, now: number): ChargeResult {
    const lease = this.#lease
    lease.available -= cost
    this.#lastChargedAt = now
    if (lease.available < this.#renewBelow && !this.#balance.isBackingOff(now)) this.#requestRenewal()
    return new LeaseCharge(this, lease, cost)
  }

  #chargeOrWait(limit: number, request: ChargeRequest, now: number): ChargeResult | Promise<ChargeResult> {
    if (limit !== this.limit) this.#balance.changeLimit(limit)
    this.#checkDay(now)
    const result = this.#waiting.length === 0 ? this.#tryCharge(request, now) : undefined
    if (result !== undefined) return result
    this.#sizing.recordWaitingCall(request.cost)
    return new Promise(resolve => {
      this.#waiting.push({ ...request, resolve })
      this.#requestRenewal()
    })
  }

  /** Undefined: the store must be asked. */
  #tryCharge({ cost, grace }: ChargeRequest, now: number): ChargeResult | undefined {
    if (this.#lease.available >= cost) return this.#chargeLease(cost, now)
    if (this.#balance.isKnownInsufficient(cost - this.#lease.available, now)) return this.#exhausted()
    if (this.#balance.isStoreUnavailable && this.#overdraw(cost, grace, now)) return this.#chargeLease(cost, now)
    return this.#isStopped || this.#balance.isBackingOff(now) ? storeUnavailable : undefined
  }

  /** Adds the missing credits to the lease, within the grace. No call waits for a store that may hang. */
  #overdraw(cost: number, grace: OutageGrace, now: number): boolean {
    const missing = cost - this.#lease.available
    // Before the first response the day that would be charged is unknown.
    if (this.#isStopped || this.#lease.day < 0) return false
    if (!this.#overdraft.reserve(missing, grace, this.#client.outageMs(now))) return false
    this.#lease.overdraw(missing)
    if (!this.#balance.isBackingOff(now)) this.#requestRenewal()
    this.#scheduleTick()
    return true
  }

  #exhausted(): ChargeResult {
    const resetAt = (this.#lease.day + 1) * dayMs
    const { limit, remaining } = this.#balance
    return { kind: 'exhausted', limit, used: limit - remaining - this.#lease.available, resetAt, quota: this }
  }

  #requestRenewal(): void {
    if (!this.#isStopped) this.#renewal ??= this.#renew()
  }

  /** Brings the lease to its target size, up or down, and reports its use. */
  async #renew(): Promise<void> {
    // The calls of a batch that follow in this turn share the request.
    await null
    const lease = this.#lease
    const now = this.#client.clock.monotonic()
    const target = this.#targetSize(now)
    lease.release(Math.max(0, lease.available - target))
    const minCredits = Math.max(0, (this.#waiting[0]?.cost ?? 0) - lease.available)
    const desiredCredits = target - lease.available
    const { limit } = this
    const response = await this.#client.requestLease(this.#account, lease, { minCredits, desiredCredits, limit })
    this.#renewal = undefined
    this.#recordResponse(lease, response, limit)
    this.#scheduleTick()
    this.#resolveWaiting()
    if (response !== undefined && this.#lease.overdraft > 0) this.#requestRenewal()
  }

  #targetSize(now: number): number {
    this.#sizing.sampleUse(this.#lease.usedSinceCreated, now)
    if (this.#waiting.length === 0 && now - this.#lastChargedAt >= idleTimeoutMs) {
      this.#sizing.resetRate()
      return 0
    }
    const waiting = this.#waiting.reduce((sum, { cost }) => sum + cost, 0)
    return this.#sizing.targetSize(this.limit, this.#client.horizonMs, waiting)
  }

  #recordResponse(lease: Lease, response: LeaseResponse | undefined, limit: number): void {
    const now = this.#client.clock.monotonic()
    this.#balance.recordAvailability(response !== undefined, now)
    if (response === undefined) return
    this.#overdraft.recordResponse(this.#lease.overdraft)
    // The day or the plan may have changed meanwhile.
    if (lease !== this.#lease || limit !== this.limit) return
    this.#renewBelow = Math.floor(lease.available / 2)
    this.#balance.update(response.remaining, now)
  }

  /** Settles the calls that wait, in order, up to the first that needs another request. */
  #resolveWaiting(): void {
    const now = this.#client.clock.monotonic()
    this.#checkDay(now)
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      const result = this.#tryCharge(first, now)
      if (result === undefined) return this.#requestRenewal()
      this.#waiting.shift()
      first.resolve(result)
    }
  }

  /** A lease expires at midnight: its credits are not valid on the next day. */
  #checkDay(now: number): void {
    const today = this.#client.today(now)
    if (today === this.#lease.day) return
    this.#replaceLease(today)
    void this.#expiredLeases.settle()
  }

  #replaceLease(today: number): void {
    this.#expiredLeases.add(this.#lease)
    this.#lease = new Lease(today)
    this.#renewBelow = 0
    this.#balance.startDay()
  }

  /** Schedules #tick(), unless it is due sooner. */
  #scheduleTick(): void {
    const delayMs = this.#isSettled ? evictAfterMs : reportIntervalMs
    if (this.#isStopped || this.#timerDelayMs <= delayMs) return
    this.#timer?.cancel()
    this.#timerDelayMs = delayMs
    this.#timer = this.#client.clock.after(delayMs, () => this.#tick())
  }

  get #isSettled(): boolean {
    return this.#lease.isSettled && this.#expiredLeases.isEmpty
  }

  #tick(): void {
    this.#timerDelayMs = Infinity
    const now = this.#client.clock.monotonic()
    this.#checkDay(now)
    if (!this.#expiredLeases.isEmpty) void this.#expiredLeases.settle()
    const idleMs = now - this.#lastChargedAt
    // An account that was never charged counts as idle for ever, and calls may wait for its first charge.
    if (this.#isSettled && this.#waiting.length === 0 && idleMs >= evictAfterMs) {
      this.#isStopped = true
      this.#onIdle()
    }
    if (idleMs >= idleTimeoutMs ? !this.#lease.isSettled : this.#lease.hasUnreportedUse) this.#requestRenewal()
    this.#scheduleTick()
  }
}

/** The credits of an idle account are returned to the store after this time. */
const idleTimeoutMs = 2_000
const reportIntervalMs = 1_000
/** Nothing is lost: the store has the day's use on record, and its first response brings it back. */
const evictAfterMs = 600_000
/** A lost message must not cost credits. */
const maxStopAttempts = 3

const storeUnavailable: ChargeResult = { kind: 'storeUnavailable' }

interface ChargeRequest {
  readonly cost: number
  readonly grace: OutageGrace
}

interface WaitingCharge extends ChargeRequest {
  resolve(result: ChargeResult): void
}
