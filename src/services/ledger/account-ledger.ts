import type { LeaseResponse } from '../../store/store.ts'
import type { Timer } from '../clock.ts'
import { LeaseCharge } from './lease-charge.ts'
import type { RefundableBudget } from './lease-charge.ts'
import { LeaseSizing } from './lease-sizing.ts'
import { Lease } from './lease.ts'
import { ExpiredLeases } from './expired-leases.ts'
import { CachedBalance } from './cached-balance.ts'
import type { LedgerClient } from './ledger-client.ts'
import type { OutageGrace, ChargeResult } from './charge-result.ts'
import { dayMs } from '../../util/dates.ts'

/** One account in one process: the lease in hand, the calls that wait for more, and the one ask that is on its way. */
export class AccountLedger implements RefundableBudget {
  readonly #account: string
  readonly #client: LedgerClient
  readonly #onIdle: () => void
  readonly #sizing = new LeaseSizing()
  /** First come, first charged: a batch is charged in order of position. */
  readonly #waiting: WaitingCharge[] = []
  /** Of days that are over. */
  readonly #expiredLeases: ExpiredLeases
  readonly #balance = new CachedBalance()
  #lease: Lease
  /** Below this the lease is renewed. */
  #renewBelow = 0
  #lastChargedAt = -Infinity
  /** Credits that the store has not granted and not heard of, or had not when it was last heard. */
  #overdraft = 0
  #renewal: Promise<void> | undefined
  #timer: Timer | undefined
  /** What the timer was set to; Infinity when it is not. */
  #timerDelayMs = Infinity
  #isStopped = false

  constructor(account: string, client: LedgerClient, onIdle: () => void) {
    this.#account = account
    this.#client = client
    this.#onIdle = onIdle
    this.#expiredLeases = new ExpiredLeases(account, client)
    this.#lease = new Lease(client.today(client.clock.monotonic()))
  }

  /** While the lease lasts, without waiting, and making nothing but the verdict: 70 ns, most of them for the clock. */
  charge(limit: number, cost: number, grace: OutageGrace = noGrace): ChargeResult | Promise<ChargeResult> {
    if (!Number.isSafeInteger(cost) || cost < 0) throw new RangeError(`a cost must be a whole number, not ${cost}`)
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

  /** Asks no more, and gives back all that is in hand. False: the store was away. */
  async stop(): Promise<boolean> {
    this.#isStopped = true
    // It still pays for calls that wait.
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

  /** Undefined: only the store can tell. */
  #tryCharge({ cost, grace }: ChargeRequest, now: number): ChargeResult | undefined {
    if (this.#lease.available >= cost) return this.#chargeLease(cost, now)
    if (this.#balance.isKnownInsufficient(cost - this.#lease.available, now)) return this.#exhausted()
    if (this.#balance.isStoreUnavailable && this.#overdraw(cost, grace, now)) return this.#chargeLease(cost, now)
    return this.#isStopped || this.#balance.isBackingOff(now) ? { kind: 'storeUnavailable' } : undefined
  }

  /** Puts what is missing in the hand, as far as grace goes. Nobody waits for a store that may hang. */
  #overdraw(cost: number, grace: OutageGrace, now: number): boolean {
    const missing = cost - this.#lease.available
    const outageMs = this.#client.outageMs(now)
    const isAllowed = outageMs !== undefined && outageMs < grace.maxDurationMs && this.#overdraft + missing <= grace.maxCredits
    // Before the first answer nobody knows the day that would be charged.
    if (this.#isStopped || !isAllowed || this.#lease.day < 0) return false
    this.#overdraft += missing
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

  /** Brings the lease to its target size, up or down, and reports what was used. */
  async #renew(): Promise<void> {
    // The rest of a batch comes in first.
    await null
    const lease = this.#lease
    const now = this.#client.clock.monotonic()
    const target = this.#targetSize(now)
    lease.release(Math.max(0, lease.available - target))
    const need = Math.max(0, (this.#waiting[0]?.cost ?? 0) - lease.available)
    const { limit } = this
    const response = await this.#client.requestLease(this.#account, lease, { need, want: target - lease.available, limit })
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
    this.#overdraft = this.#lease.overdraft
    // The day or the plan may have changed meanwhile.
    if (lease !== this.#lease || limit !== this.limit) return
    this.#renewBelow = Math.floor(lease.available / 2)
    this.#balance.update(response.remaining, now)
  }

  /** Tells those who wait what became of their calls, in order, until one needs the store again. */
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

  /** At midnight the lease ends: what is left of it buys nothing on the next day. */
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

  /** Sees to it that #tick() comes soon enough; one that is due sooner stays. */
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
    // An account that was never charged has been quiet for ever, and calls may wait for its first charge.
    if (this.#isSettled && this.#waiting.length === 0 && idleMs >= evictAfterMs) {
      this.#isStopped = true
      this.#onIdle()
    }
    if (idleMs >= idleTimeoutMs ? !this.#lease.isSettled : this.#lease.hasUnreportedUse) this.#requestRenewal()
    this.#scheduleTick()
  }
}

/** Credits of an account that rests go back to the store after so many ms. */
const idleTimeoutMs = 2_000
const reportIntervalMs = 1_000
/** What this process used today is on record in the store, and comes back with the first answer. */
const evictAfterMs = 600_000
/** A message that is lost must not cost credits. */
const maxStopAttempts = 3

const noGrace: OutageGrace = { maxCredits: 0, maxDurationMs: 0 }

interface ChargeRequest {
  readonly cost: number
  readonly grace: OutageGrace
}

interface WaitingCharge extends ChargeRequest {
  resolve(result: ChargeResult): void
}
