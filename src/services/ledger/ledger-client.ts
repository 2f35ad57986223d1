import { storeTimeoutMs } from '../../store/store.ts'
import type { LeaseResponse, LedgerStore, StoreDay } from '../../store/store.ts'
import type { Clock, Timer } from '../clock.ts'
import { withTimeout } from '../../util/with-timeout.ts'
import type { Log } from '../log.ts'
import { createSemaphore } from '../../util/semaphore.ts'
import type { Lease } from './lease.ts'
import { dayMs } from '../../util/dates.ts'

/** What is asked for beyond what a lease says of itself. */
export interface LeaseTarget {
  readonly need: number
  readonly want: number
  readonly limit: number
}

/** Speaks with the store for all purses of a process: numbers asks, keeps the day, notices when the store is away. */
export class LedgerClient {
  readonly clock: Clock
  readonly horizonMs: number
  readonly #store: LedgerStore
  readonly #process: string
  readonly #log: Log
  #seq = 0
  /** How many live, as the store counts them. */
  #liveProcesses = 1
  #day = -1
  #midnightAt = Infinity
  #dayKnownAt = -Infinity
  #unavailableSince = Infinity
  /** How often it has gone away. */
  #outageCount = 0
  /** When thousands of accounts come at once, a store that answers all of them in turn is not away. */
  readonly #semaphore = createSemaphore(maxConcurrentRequests)
  #isClockBehind = false
  #heartbeatTimer: Timer | undefined
  #heartbeat: Promise<void> | undefined

  constructor(store: LedgerStore, clock: Clock, process: string, log: Log) {
    this.clock = clock
    this.horizonMs = store.horizonMs
    this.#store = store
    this.#process = process
    this.#log = log
  }

  /** Resolves when the store has counted this process, or could not be asked. */
  async start(): Promise<void> {
    this.#heartbeatTimer ??= this.clock.every(heartbeatIntervalMs, () => this.#sendHeartbeat())
    await this.#sendHeartbeat()
  }

  /** Comes after all leases have been settled. */
  async stop(): Promise<void> {
    this.#heartbeatTimer?.cancel()
    await this.#heartbeat
    await this.#callStore(
      () => this.#store.deregister(this.#process),
      () => {},
    )
  }

  /** The store's day, by the monotonic clock: it never begins later than it does for the store, and never goes back. */
  today(now: number): number {
    if (now >= this.#midnightAt) {
      this.#day += 1
      this.#midnightAt = Infinity
    }
    return this.#day
  }

  /** Milliseconds until the next day, as far as it is known. */
  dayEndsInMs(now: number): number {
    return this.#midnightAt === Infinity ? dayMs : this.#midnightAt - now
  }

  /** For how many ms the store has not answered; undefined while it does. */
  outageMs(now: number): number | undefined {
    return this.#unavailableSince === Infinity ? undefined : now - this.#unavailableSince
  }

  /**
   * Asks the store. What it grants is in the lease when this resolves, or later if the answer takes too long to be
   * waited for. Undefined: the store is away.
   */
  async requestLease(account: string, lease: Lease, target: LeaseTarget): Promise<LeaseResponse | undefined> {
    const outageCount = this.#outageCount
    // Who stands in line when the store goes away hears so with the others.
    const response = await this.#semaphore(async () =>
      outageCount === this.#outageCount ? this.#sendRequest(account, lease, target) : undefined,
    )
    if (response === undefined || response.today >= lease.day) return response
    // The day has begun here, and for the store it is about to.
    if (response.endsInMs > retryDelayMs) return undefined
    await new Promise<void>(resolve => this.clock.after(response.endsInMs, resolve))
    return this.requestLease(account, lease, target)
  }

  #sendRequest(account: string, lease: Lease, target: LeaseTarget): Promise<LeaseResponse | undefined> {
    const seq = (this.#seq += 1)
    const request = { account, day: lease.day, process: this.#process, seq, counters: lease.beginRequest(seq) }
    const sentAt = this.clock.monotonic()
    return this.#callStore(
      () => this.#store.requestLease({ ...request, ...target, shareDivisor: 2 * this.#liveProcesses }),
      response => {
        this.#updateDay(sentAt, response)
        lease.applyResponse(seq, response.counters)
      },
    )
  }

  #sendHeartbeat(): Promise<void> {
    const sentAt = this.clock.monotonic()
    this.#heartbeat ??= this.#callStore(
      () => this.#store.heartbeat(this.#process),
      response => {
        this.#updateDay(sentAt, response)
        this.#liveProcesses = response.liveProcesses
      },
    ).then(() => {
      this.#heartbeat = undefined
    })
    return this.#heartbeat
  }

  /**
   * Counted from the moment the question was sent, midnight comes early rather than late. A store reads its clock in
   * whole milliseconds, so the day may end by nearly one of them sooner than it says.
   */
  #updateDay(sentAt: number, { today, endsInMs }: StoreDay): void {
    if (sentAt < this.#dayKnownAt || today < this.#day) return
    const isClockBehind = endsInMs > dayMs + maxClockSkewMs
    if (isClockBehind && !this.#isClockBehind) {
      this.#log.warn({ day: today, endsIn: endsInMs }, 'the clock went back to before the day that the store is in: it lasts longer')
    }
    this.#isClockBehind = isClockBehind
    this.#dayKnownAt = sentAt
    this.#day = today
    this.#midnightAt = sentAt + endsInMs - 1
  }

  /** Undefined when the store fails or is slow; `take` gets what it answers even then. */
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
      if (this.#unavailableSince < Infinity) this.#log.info({}, 'the store answers again')
      this.#unavailableSince = Infinity
      return answer
    } catch (error) {
      if (this.#unavailableSince === Infinity) this.#recordOutage(error)
      return undefined
    }
  }

  #recordOutage(error: unknown): void {
    this.#log.warn({ err: error }, 'the store does not answer: leases in hand are spent')
    this.#unavailableSince = this.clock.monotonic()
    this.#outageCount += 1
  }
}

/** Before the store is asked again for what it did not have, or after it was away; ms. */
export const retryDelayMs = 250
const heartbeatIntervalMs = 1_000
/** Asks that are under way at once: a fraction of what any store answers within a second. */
const maxConcurrentRequests = 500
/** What clocks are put right by without anybody noticing; ms. */
const maxClockSkewMs = 1_000
