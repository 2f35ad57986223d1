import { StoreError, StoreRemovedError, nearStoreMs, storeTimeoutMs } from '../../store/store.ts'
import type { LeaseResponse, LedgerStore, StoreDay } from '../../store/store.ts'
import { TimeoutError, createSemaphore, withTimeout } from '../../util/async.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Log } from '../log.ts'
import { DayBoundary } from './day-boundary.ts'
import { retryDelayMs } from './cached-balance.ts'
import type { Lease } from './lease.ts'
import type { StoreOutage } from './store-outage.ts'

/** The part of a LeaseRequest that its lease does not know. */
interface LeaseTarget {
  readonly minCredits: number
  readonly desiredCredits: number
  readonly limit: number
}

export interface LedgerClientOptions {
  readonly log: Log
  /** Called when the store cannot be used any more, and with undefined when it can be used again. */
  onOutage?(reason: StoreOutage | undefined): void
  /** Has the other processes of this gateway return what they hold of an account and do not use. Never rejects. */
  recall?(account: string): Promise<void>
}

/** The store's client for all accounts of a process: numbers requests, follows the day, sends heartbeats, detects outages. */
export class LedgerClient {
  readonly clock: Clock
  readonly horizonMs: number
  readonly dayBoundary: DayBoundary
  /** As in LedgerClientOptions; undefined for a gateway of one process. */
  readonly recall: LedgerClientOptions['recall']
  readonly #store: LedgerStore
  readonly #process: string
  readonly #log: Log
  readonly #onOutage: NonNullable<LedgerClientOptions['onOutage']>
  /** Thousands of accounts that ask at once must not look like an outage of a store that answers each in turn. */
  readonly #semaphore = createSemaphore(maxConcurrentRequests)
  #seq = 0
  /** The shortest round trip to the store of late, which a busy store or a busy process does not lengthen. */
  #roundTripMs = Infinity
  /** As the store counts them. */
  #liveProcesses = 1
  #unavailableSince = Infinity
  #outageCount = 0
  #outage: StoreOutage | undefined
  readonly #outageReasons = new Set<string>()
  /** Charges that this outage has refused. */
  #refusals = 0
  #isClockWrong = false
  #heartbeatTimer: Timer | undefined
  #heartbeat: Promise<void> | undefined

  constructor(store: LedgerStore, clock: Clock, process: string, { log, onOutage = () => {}, recall }: LedgerClientOptions) {
    this.clock = clock
    this.horizonMs = store.horizonMs
    this.#store = store
    this.#process = process
    this.#log = log
    this.#onOutage = onOutage
    this.recall = recall
    this.dayBoundary = new DayBoundary(log)
  }

  /** Resolves when the store has counted this process, or is unavailable. */
  async start(): Promise<void> {
    this.#heartbeatTimer ??= this.clock.every(heartbeatIntervalMs, () => this.#sendHeartbeat())
    await this.#sendHeartbeat()
  }

  /** To be called after all leases have been settled. */
  async stop(): Promise<void> {
    this.#heartbeatTimer?.cancel()
    await this.#heartbeat
    await this.#callStore(
      () => this.#store.deregister(this.#process),
      () => {},
    )
  }

  /** Milliseconds since the store became unavailable; undefined while it is available. */
  outageMs(now: number): number | undefined {
    return this.#unavailableSince === Infinity ? undefined : now - this.#unavailableSince
  }

  /** Nothing has been answered for so long that calls need not wait for it: the next heartbeat finds out when the store is back. */
  isStoreLost(now: number): boolean {
    return now - this.#unavailableSince >= lostAfterMs
  }

  /** How many times longer than near a store a lease that is not used is kept: a call that waits for another one would wait for longer. */
  get distanceFactor(): number {
    if (this.#roundTripMs === Infinity) return 1
    return Math.min(maxDistanceFactor, Math.max(1, this.#roundTripMs / nearStoreMs))
  }

  /**
   * The part of what is left in the store that an idle account keeps in this process, so that its next call does not wait. 0 near the store.
   * `leasedShare` is the part of this process of what all have leased: where few of many processes are called, these keep more.
   */
  keptShare(leasedShare: number): number {
    return this.distanceFactor > 1 ? Math.min(maxKeptShare, maxKeptShareOfAll * Math.max(leasedShare, 1 / this.#liveProcesses)) : 0
  }

  /** A charge is refused because the leased credits are used up, and the store cannot be asked. The log says when this begins and when it ends. */
  recordRefusal(): void {
    if (this.#unavailableSince === Infinity) return
    this.#refusals += 1
    if (this.#refusals === 1) this.#log.warn({ event: 'charges-refused' }, refusalsBegin)
  }

  /**
   * Requests credits. A grant is in the lease when this resolves, or later when the response comes after the timeout.
   * Undefined: the store is unavailable.
   */
  async requestLease(account: string, lease: Lease, target: LeaseTarget): Promise<LeaseResponse | undefined> {
    const outageCount = this.#outageCount
    // Requests that are queued when an outage begins fail with those in flight.
    const response = await this.#semaphore(async () =>
      outageCount === this.#outageCount ? this.#sendRequest(account, lease, target) : undefined,
    )
    if (response === undefined || response.today >= lease.day) return response
    // The day has begun here, and is about to begin in the store.
    if (response.endsInMs > retryDelayMs) return undefined
    await new Promise<void>(resolve => this.clock.after(response.endsInMs, resolve))
    return this.requestLease(account, lease, target)
  }

  #sendRequest(account: string, lease: Lease, target: LeaseTarget): Promise<LeaseResponse | undefined> {
    const seq = (this.#seq += 1)
    const request = { account, day: lease.day, process: this.#process, seq, counters: lease.beginRequest(seq) }
    return this.#callForDay(
      () => this.#store.requestLease({ ...request, ...target, shareDivisor: 2 * this.#liveProcesses }),
      ({ counters }) => lease.applyResponse(seq, counters),
    )
  }

  #sendHeartbeat(): Promise<void> {
    this.#heartbeat ??= this.#callForDay(
      () => this.#store.heartbeat(this.#process),
      ({ liveProcesses, ignoredJumpMs }) => {
        this.#liveProcesses = liveProcesses
        this.#logClockJump(ignoredJumpMs)
      },
    ).then(() => {
      this.#heartbeat = undefined
    })
    return this.#heartbeat
  }

  /** #callStore() for a response that tells the store's day. */
  #callForDay<T extends StoreDay>(request: () => Promise<T>, onResponse: (response: T) => void): Promise<T | undefined> {
    const sentAt = this.clock.monotonic()
    return this.#callStore(request, response => {
      this.#roundTripMs = Math.min(this.clock.monotonic() - sentAt, this.#roundTripMs * roundTripGrowthFactor)
      this.dayBoundary.update(sentAt, response)
      onResponse(response)
    })
  }

  /** Undefined when the store fails or times out. `onResponse` is called with a response after the timeout too. */
  async #callStore<T>(request: () => Promise<T>, onResponse: (response: T) => void): Promise<T | undefined> {
    try {
      const answer = await withTimeout(
        this.clock,
        storeTimeoutMs,
        request().then(response => {
          onResponse(response)
          return response
        }),
      )
      if (this.#unavailableSince < Infinity) this.#endOutage()
      return answer
    } catch (error) {
      this.#recordFailure(error)
      return undefined
    }
  }

  #logClockJump(ignoredJumpMs: number): void {
    const isClockWrong = ignoredJumpMs !== 0
    if (isClockWrong && !this.#isClockWrong) this.#log.warn({ ignoredJumpMs }, clockJumpIgnored)
    this.#isClockWrong = isClockWrong
  }

  /** An outage has a line for each reason, as the first one may be only that the connection was lost. */
  #recordFailure(error: unknown): void {
    if (this.#unavailableSince === Infinity) {
      this.#unavailableSince = this.clock.monotonic()
      this.#outageCount += 1
      this.#outageReasons.clear()
    }
    this.#setOutage(error instanceof StoreRemovedError ? 'removed' : 'unreachable')
    const reason = error instanceof Error ? error.message : String(error)
    if (this.#outageReasons.has(reason) || this.#outageReasons.size === maxOutageReasons) return
    this.#outageReasons.add(reason)
    const isKnown = error instanceof StoreError || error instanceof TimeoutError
    this.#log.warn(isKnown ? { cause: reason } : { err: error }, 'store unreachable: calls are charged to credits that are already leased')
  }

  #endOutage(): void {
    this.#log.info({}, 'store reachable again')
    if (this.#refusals > 0) this.#log.info({ event: 'charges-accepted', refused: this.#refusals }, refusalsEnd)
    this.#refusals = 0
    this.#unavailableSince = Infinity
    this.#setOutage(undefined)
  }

  #setOutage(outage: StoreOutage | undefined): void {
    if (outage === this.#outage) return
    this.#outage = outage
    this.#onOutage(outage)
  }
}

const heartbeatIntervalMs = 1_000
/** Longer than a failover takes: after one, calls find out sooner than heartbeats that the store is back. */
const lostAfterMs = 10_000

const maxDistanceFactor = 50
/** Of one process; and of all together, once where it is shared equally, and once by what they have leased. */
const maxKeptShare = 1 / 500
const maxKeptShareOfAll = 1 / 200
/** With each response, so that a store that has moved away is noticed. */
const roundTripGrowthFactor = 1.01

/** Lines of one outage in the log. */
const maxOutageReasons = 5

const refusalsBegin = 'leased credits are used up and the store cannot be asked for more: calls are refused with -32002 until it answers'
const refusalsEnd = 'calls are charged again'

const clockJumpIgnored =
  "system clock differs by more than a day from the store's time, which does not follow it: set the clock right; if the clock is right, " +
  'stop all gateways, run `tollgate store repair` and start them again'

/** A fraction of what any store answers within a second. */
const maxConcurrentRequests = 500
