import type { Account } from '../../plugin/call.ts'
import type { CreditQuota } from '../../plugin/reply.ts'
import type { MaybePromise } from '../../util/async.ts'
import { dayMs } from '../../util/dates.ts'
import { getOrCreate } from '../../util/memoize.ts'
import type { Clock } from '../clock.ts'
import type { CachedBalance } from './cached-balance.ts'
import type { DayBoundary } from './day-boundary.ts'
import type { Lease } from './lease.ts'
import { LeaseRenewal } from './lease-renewal.ts'
import type { LeaseUser } from './lease-renewal.ts'
import type { LedgerClient } from './ledger-client.ts'
import { RenewalSchedule } from './renewal-schedule.ts'
import { noGrace } from './store-outage.ts'
import type { OutageGrace } from './store-outage.ts'

/** The accounts whose credits this process has leased, or has asked for. */
export class AccountLedgers {
  readonly #client: LedgerClient
  readonly #schedule: RenewalSchedule
  readonly #byAccount = new Map<string, AccountLedger>()
  #isStopped = false

  constructor(client: LedgerClient) {
    this.#client = client
    this.#schedule = new RenewalSchedule(client)
  }

  readonly charge = ({ id, plan }: Account, cost: number, grace?: OutageGrace): MaybePromise<ChargeResult> =>
    getOrCreate(this.#byAccount, id, this.#open).charge(plan.dailyCredits, cost, grace)

  /** See Ledger. */
  readonly returnUnused = async (account: string): Promise<void> => this.#byAccount.get(account)?.returnUnused()

  /** Returns all leased credits that are left. Resolves to the number of accounts whose credits could not be returned. */
  async stop(): Promise<number> {
    this.#isStopped = true
    const released = await Promise.all(Array.from(this.#byAccount.values(), ledger => ledger.stop()))
    return released.filter(isReturned => !isReturned).length
  }

  readonly #open = (account: string): AccountLedger => {
    const ledger = new AccountLedger(account, this.#client, this.#schedule, this.#remove)
    // Nobody would return a lease that is taken after stop().
    if (this.#isStopped) void ledger.stop()
    return ledger
  }

  readonly #remove = (account: string): void => void this.#byAccount.delete(account)
}

/** The credits of one account in one process: charges its lease, and lets calls wait for credits. */
class AccountLedger implements CreditQuota, LeaseUser {
  readonly onIdle: (account: string) => void
  lastChargedAt = -Infinity
  readonly #client: LedgerClient
  readonly #clock: Clock
  readonly #dayBoundary: DayBoundary
  readonly #renewal: LeaseRenewal
  readonly #balance: CachedBalance
  /** First come, first charged: a batch is charged in order of position. Undefined without any: a process has thousands of accounts. */
  #waiting: WaitingCharge[] | undefined

  constructor(account: string, client: LedgerClient, schedule: RenewalSchedule, onIdle: (account: string) => void) {
    this.onIdle = onIdle
    this.#client = client
    this.#clock = client.clock
    this.#dayBoundary = client.dayBoundary
    this.#renewal = new LeaseRenewal(account, client, schedule, this)
    this.#balance = this.#renewal.balance
  }

  /** While the lease has credits: without a promise, and creating only the result. 70 ns, most of them for the clock. */
  charge(limit: number, cost: number, grace: OutageGrace = noGrace): MaybePromise<ChargeResult> {
    if (!Number.isSafeInteger(cost) || cost < 0) throw new RangeError(`a cost must be an integer of 0 or more, not ${cost}`)
    const now = this.#clock.monotonic()
    const { lease } = this.#renewal
    const { day, midnightAt } = this.#dayBoundary
    const isFastPath = this.#waiting === undefined && limit === this.limit && lease.day === day && now < midnightAt
    return isFastPath && lease.available >= cost ? this.#chargeLease(cost, now) : this.#chargeOrWait(limit, { cost, grace }, now)
  }

  refund(lease: Lease, cost: number): boolean {
    if (lease !== this.#renewal.lease) return false
    lease.available += cost
    this.#renewal.scheduleChecks()
    return true
  }

  get limit(): number {
    return this.#balance.limit
  }

  get remaining(): number {
    return Math.min(Math.max(0, this.#balance.remaining + this.#renewal.lease.available), this.limit)
  }

  /** A whole day while the end of the day is not known. */
  get resetsInMs(): number {
    const { midnightAt } = this.#dayBoundary
    return midnightAt === Infinity ? dayMs : midnightAt - this.#clock.monotonic()
  }

  get waiting(): readonly WaitingCharge[] {
    return this.#waiting ?? noneWaiting
  }

  /** Settles the calls that wait, in order, up to the first that needs another request. */
  onResponse(): void {
    const now = this.#clock.monotonic()
    this.#renewal.checkDay(now)
    for (let first = this.#waiting?.[0]; first !== undefined; first = this.#waiting?.[0]) {
      const result = this.#tryCharge(first, now)
      if (result === undefined) return this.#renewal.request()
      this.#waiting?.shift()
      if (this.#waiting?.length === 0) this.#waiting = undefined
      first.resolve(result)
    }
  }

  returnUnused(): Promise<void> {
    return this.#renewal.returnUnused()
  }

  stop(): Promise<boolean> {
    return this.#renewal.stop()
  }

  #chargeLease(cost: number, now: number): ChargeResult {
    const { lease } = this.#renewal
    lease.available -= cost
    this.lastChargedAt = now
    if (lease.available < lease.renewBelow) this.#renewal.requestSoon(now)
    return new LeaseCharge(this, lease, cost)
  }

  #chargeOrWait(limit: number, request: ChargeRequest, now: number): MaybePromise<ChargeResult> {
    this.#renewal.checkDay(now)
    if (limit !== this.limit) this.#renewal.changeLimit(limit, now)
    const result = this.#waiting === undefined ? this.#tryCharge(request, now) : undefined
    if (result !== undefined) return result
    return new Promise(resolve => {
      this.#waiting ??= []
      this.#waiting.push({ ...request, resolve })
      this.#renewal.requestFor(request.cost)
    })
  }

  /** Undefined: the store must be asked. */
  #tryCharge({ cost, grace }: ChargeRequest, now: number): ChargeResult | undefined {
    const missing = cost - this.#renewal.lease.available
    if (missing <= 0) return this.#chargeLease(cost, now)
    if (this.#balance.isKnownInsufficient(missing, now)) return this.#exhausted()
    const isLost = this.#client.outage.isStoreLost(now)
    if ((isLost || this.#balance.isStoreUnavailable) && this.#renewal.overdraw(missing, grace, now)) return this.#chargeLease(cost, now)
    if (this.#renewal.isStopped) return storeUnavailable
    if (!isLost && !this.#balance.isBackingOff(now)) return undefined
    this.#client.outage.recordRefusal()
    return storeUnavailable
  }

  #exhausted(): ChargeResult {
    const { lease } = this.#renewal
    const { limit, remaining } = this.#balance
    return { kind: 'exhausted', limit, used: limit - remaining - lease.available, resetAt: (lease.day + 1) * dayMs, quota: this }
  }
}

/** The result of a charge. `storeUnavailable`: the leased credits are used up, and the store could not be asked for more. */
export type ChargeResult =
  | {
      readonly kind: 'charged'
      /** The day that was charged, in days since 1970, UTC. */
      readonly day: number
      readonly quota: CreditQuota
      /** Returns so many of the credits, all unless given. False when they stay used: their day is over, the account was idle for long, or they were refunded before. */
      refund(credits?: number): boolean
    }
  | {
      readonly kind: 'exhausted'
      /** The day's credits, and how many of them are used or leased to other processes. */
      readonly limit: number
      readonly used: number
      /** Milliseconds since 1970: the next midnight UTC. */
      readonly resetAt: number
      readonly quota: CreditQuota
    }
  | { readonly kind: 'storeUnavailable' }

const storeUnavailable: ChargeResult = { kind: 'storeUnavailable' }

/** A charge to a lease. */
class LeaseCharge implements Extract<ChargeResult, { kind: 'charged' }> {
  readonly kind = 'charged'
  readonly day: number
  readonly quota: AccountLedger
  readonly #lease: Lease
  #used: number
  #isRefunded = false

  constructor(quota: AccountLedger, lease: Lease, cost: number) {
    this.day = lease.day
    this.quota = quota
    this.#lease = lease
    this.#used = cost
  }

  refund(credits: number = this.#used): boolean {
    if (this.#isRefunded) return false
    this.#isRefunded = credits >= this.#used
    const refunded = Math.min(credits, this.#used)
    this.#used -= refunded
    return this.quota.refund(this.#lease, refunded)
  }
}

interface ChargeRequest {
  readonly cost: number
  readonly grace: OutageGrace
}

interface WaitingCharge extends ChargeRequest {
  resolve(result: ChargeResult): void
}

const noneWaiting: readonly WaitingCharge[] = []
