import { nearStoreMs, storeTimeoutMs } from '../../store/store.ts'
import type { LeaseResponse, LedgerStore, StoreDay } from '../../store/store.ts'
import { createSemaphore, sleep, withTimeout } from '../../util/async.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Log } from '../log.ts'
import { DayBoundary } from './day-boundary.ts'
import { retryDelayMs } from './cached-balance.ts'
import type { Lease } from './lease.ts'
import { OutageTracker } from './outage-tracker.ts'
import type { OutageTrackerOptions } from './outage-tracker.ts'

/** The part of a LeaseRequest that its lease does not know. */
interface LeaseTarget {
  readonly minCredits: number
  readonly desiredCredits: number
  readonly limit: number
}

export interface LedgerClientOptions extends OutageTrackerOptions {
  /** Has the other processes of this gateway return what they hold of an account and do not use. Never rejects. */
  recall?(account: string): Promise<void>
}

/** The store's client for all accounts of a process: numbers requests, follows the day, and sends heartbeats. */
export class LedgerClient {
  readonly clock: Clock
  readonly horizonMs: number
  readonly dayBoundary: DayBoundary
  readonly outage: OutageTracker
  /** Processes, as the store counts them. */
  liveProcesses = 1
  /** As in LedgerClientOptions; undefined for a gateway of one process. */
  readonly recall: LedgerClientOptions['recall']
  readonly #store: LedgerStore
  readonly #process: string
  readonly #log: Log
  /** Thousands of accounts that ask at once must not look like an outage of a store that answers each in turn. */
  readonly #semaphore = createSemaphore(maxConcurrentRequests)
  #seq = 0
  /** The shortest round trip to the store of late, which a busy store or a busy process does not lengthen. */
  #roundTripMs = Infinity
  #isClockWrong = false
  #heartbeatTimer: Timer | undefined
  #heartbeat: Promise<void> | undefined

  constructor(store: LedgerStore, clock: Clock, process: string, options: LedgerClientOptions) {
    const { log, recall } = options
    this.clock = clock
    this.horizonMs = store.horizonMs
    this.#store = store
    this.#process = process
    this.#log = log
    this.recall = recall
    this.dayBoundary = new DayBoundary(log)
    this.outage = new OutageTracker(options)
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

  /** How many times longer than near a store a lease that is not used is kept: a call that waits for another one would wait for longer. */
  get distanceFactor(): number {
    if (this.#roundTripMs === Infinity) return 1
    return Math.min(maxDistanceFactor, Math.max(1, this.#roundTripMs / nearStoreMs))
  }

  /**
   * Requests credits. A grant is in the lease when this resolves, or later when the response comes after the timeout.
   * Undefined: the store is unavailable.
   */
  async requestLease(account: string, lease: Lease, target: LeaseTarget): Promise<LeaseResponse | undefined> {
    const outageCount = this.outage.count
    // Requests that are queued when an outage begins fail with those in flight.
    const response = await this.#semaphore(async () =>
      outageCount === this.outage.count ? this.#sendRequest(account, lease, target) : undefined,
    )
    if (response === undefined || response.today >= lease.day) return response
    // The day has begun here, and is about to begin in the store.
    if (response.endsInMs > retryDelayMs) return undefined
    await sleep(this.clock, response.endsInMs)
    return this.requestLease(account, lease, target)
  }

  #sendRequest(account: string, lease: Lease, target: LeaseTarget): Promise<LeaseResponse | undefined> {
    const seq = (this.#seq += 1)
    const request = { account, day: lease.day, process: this.#process, seq, counters: lease.beginRequest(seq) }
    return this.#callForDay(
      () => this.#store.requestLease({ ...request, ...target, shareDivisor: 2 * this.liveProcesses }),
      ({ counters }) => lease.applyResponse(seq, counters),
    )
  }

  #sendHeartbeat(): Promise<void> {
    this.#heartbeat ??= this.#callForDay(
      () => this.#store.heartbeat(this.#process),
      ({ liveProcesses, ignoredJumpMs }) => {
        this.liveProcesses = liveProcesses
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
      this.outage.recordResponse()
      return answer
    } catch (error) {
      this.outage.recordFailure(error, this.clock.monotonic())
      return undefined
    }
  }

  #logClockJump(ignoredJumpMs: number): void {
    const isClockWrong = ignoredJumpMs !== 0
    if (isClockWrong && !this.#isClockWrong) this.#log.warn({ ignoredJumpMs }, clockJumpIgnored)
    this.#isClockWrong = isClockWrong
  }
}

const heartbeatIntervalMs = 1_000

const maxDistanceFactor = 50
/** With each response, so that a store that has moved away is noticed. */
const roundTripGrowthFactor = 1.01

const clockJumpIgnored =
  "system clock differs by more than a day from the store's time, which does not follow it: set the clock right; if the clock is right, " +
  'stop all gateways, run `tollgate store repair` and start them again'

/** A fraction of what any store answers within a second. */
const maxConcurrentRequests = 500
