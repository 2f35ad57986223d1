import { EventEmitter } from 'node:events'
import Opossum from 'opossum'
import { Backoff, singleFlight } from '../util/async.ts'
import type { BackoffOptions } from '../util/async.ts'
import type { Clock, Timer } from './clock.ts'

/** How a call ended for the service that was called. `ignored`: without evidence of its health, as when the caller left. */
export type CallOutcome = 'success' | 'failure' | 'ignored'

export interface CircuitBreakerOptions {
  readonly clock: Clock
  /** `closed` unless given. A breaker that begins open is closed by its first successful probe. */
  readonly initialState?: 'open' | 'closed'
  /** The breaker opens when more percent of the calls failed, since the first failure of the last 10 s, and they are at least `minCalls`. */
  readonly errorPercent: number
  readonly minCalls: number
  /** Delays before the probes of an open breaker; a recorded success resets them. */
  readonly probeBackoff: BackoffOptions
  /** Requests something cheap of the service; true closes the breaker. */
  probe(): Promise<boolean>
  onStateChange?(state: 'open' | 'closed'): void
}

/** A breaker opens after so many failures in a row, however few calls there are. */
const maxFailuresInRow = 5

const windowMs = 10_000
const bucketCount = 10

/**
 * Keeps calls away from a service while too many of them fail. The breaker runs no calls: opossum is fired with their outcomes, as the
 * outcome of some calls must not be counted either way. An open breaker is closed by its own probe alone, never by a call: in the half-open
 * state of opossum the breaker is open, too.
 *
 * To fire takes 3 us for a success, 10 us for a failure. So successes are fired only after a failure in the window: without one there is no
 * error rate. All else takes 0.1 us.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  readonly #opossum: Opossum<[isSuccess: boolean], void>
  readonly #bucketTimer: Timer
  readonly #backoff: Backoff
  #probeTimer: Timer | undefined
  #failuresInRow = 0
  #lastFailureAt = -Infinity

  constructor(options: CircuitBreakerOptions) {
    const { clock, minCalls, errorPercent, probeBackoff, initialState } = options
    const rotateBucketController = new EventEmitter()
    this.#options = options
    this.#backoff = new Backoff(probeBackoff)
    this.#opossum = new Opossum(settleCall, {
      timeout: false,
      volumeThreshold: minCalls,
      errorThresholdPercentage: errorPercent,
      rollingCountTimeout: windowMs,
      rollingCountBuckets: bucketCount,
      rotateBucketController,
      rollingPercentilesEnabled: false,
      enableSnapshots: false,
    })
    this.#bucketTimer = clock.every(windowMs / bucketCount, () => rotateBucketController.emit('rotate'))
    if (initialState === 'open') {
      this.#opossum.open()
      this.#scheduleProbe()
    }
    this.#opossum.on('open', () => this.#onOpen())
    this.#opossum.on('close', () => this.#onClose())
  }

  /** True also after stop(). */
  get isOpen(): boolean {
    return !this.#opossum.closed
  }

  /**
   * Records the outcome of a call. While the breaker is open nothing is counted: such calls began before it opened. After it
   * has closed, failures from before it opened still count in the window, but no longer as failures in a row.
   */
  record(outcome: CallOutcome): void {
    if (outcome === 'ignored' || this.isOpen) return
    const isSuccess = outcome === 'success'
    const now = this.#options.clock.monotonic()
    if (isSuccess) this.#backoff.reset()
    else this.#lastFailureAt = now
    this.#failuresInRow = isSuccess ? 0 : this.#failuresInRow + 1
    // It rejects with each failure that it counts.
    if (now - this.#lastFailureAt < windowMs) void this.#opossum.fire(isSuccess).catch(() => undefined)
    if (this.#failuresInRow >= maxFailuresInRow) this.open()
  }

  /** Opens the breaker whatever was recorded. */
  open(): void {
    if (!this.isOpen) this.#opossum.open()
  }

  /** Probes the service now rather than when the next probe is due, if the breaker is open. */
  readonly probe = singleFlight(async (): Promise<void> => {
    if (!this.isOpen || this.#opossum.isShutdown) return
    this.#probeTimer?.cancel()
    const isHealthy = await this.#options.probe().catch(() => false)
    if (this.#opossum.isShutdown) return
    if (isHealthy) this.#opossum.close()
    else this.#scheduleProbe()
  })

  stop(): void {
    this.#bucketTimer.cancel()
    this.#probeTimer?.cancel()
    this.#opossum.shutdown()
  }

  #onOpen(): void {
    this.#scheduleProbe()
    this.#options.onStateChange?.('open')
  }

  #onClose(): void {
    this.#failuresInRow = 0
    this.#options.onStateChange?.('closed')
  }

  #scheduleProbe(): void {
    this.#probeTimer = this.#options.clock.after(this.#backoff.next(), () => void this.probe())
  }
}

/** One error for all: it is never read, and its stack trace would take 2 us. */
const callFailed = new Error('the call failed')
const settleCall = (isSuccess: boolean): Promise<void> => (isSuccess ? Promise.resolve() : Promise.reject(callFailed))
