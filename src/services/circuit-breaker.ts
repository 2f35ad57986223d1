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
  /** The breaker opens after so many failures in a row, however few calls there are. */
  readonly consecutiveFailures: number
  /** The breaker opens when so many percent of the calls in the window failed, and the window has at least `minCalls`. */
  readonly errorPercent: number
  readonly minCalls: number
  readonly windowMs: number
  /** Delays before the probes of an open breaker; a recorded success resets them. */
  readonly probeBackoff: BackoffOptions
  /** Requests something cheap of the service; true closes the breaker. */
  probe(): Promise<boolean>
  onStateChange?(state: 'open' | 'closed'): void
}

/**
 * Keeps calls away from a service while too many of them fail. The breaker runs no calls: it is fed their outcomes, as the
 * outcome of some calls must not be counted either way. An open breaker is closed by its own probe alone, never by a call.
 *
 * opossum counts and decides. What it would read from a timer of its own comes from the clock instead: the clock rotates the
 * buckets of the window, and schedules the probes, so that opossum never enters its half-open state. opossum neither times
 * calls nor limits how many there are.
 *
 * record('success') takes 9 ns, record('failure') 5 us, isOpen 4 ns.
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions
  readonly #opossum: Opossum<[], void>
  readonly #bucketTimer: Timer
  readonly #backoff: Backoff
  #probeTimer: Timer | undefined
  #consecutiveFailures = 0

  constructor(options: CircuitBreakerOptions) {
    const { clock, minCalls, errorPercent, windowMs, probeBackoff, initialState } = options
    const buckets = new EventEmitter()
    this.#options = options
    this.#backoff = new Backoff(probeBackoff)
    this.#opossum = new Opossum(failedCall, {
      timeout: false,
      volumeThreshold: minCalls,
      errorThresholdPercentage: errorPercent - thresholdEpsilonPercent,
      rollingCountTimeout: windowMs,
      rollingCountBuckets: bucketCount,
      rotateBucketController: buckets,
      resetTimeout: maxTimerMs,
      rollingPercentilesEnabled: false,
      enableSnapshots: false,
    })
    this.#bucketTimer = clock.every(windowMs / bucketCount, () => buckets.emit('rotate'))
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
    if (outcome === 'success') {
      this.#consecutiveFailures = 0
      this.#backoff.reset()
      // opossum needs to know only that there was a call, of which it takes the error rate: fire() would take 5 us.
      this.#opossum.emit('fire')
    } else {
      this.#consecutiveFailures += 1
      void this.#opossum.fire().catch(() => undefined)
      if (this.#consecutiveFailures >= this.#options.consecutiveFailures) this.open()
    }
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
    this.#consecutiveFailures = 0
    this.#options.onStateChange?.('closed')
  }

  #scheduleProbe(): void {
    this.#probeTimer = this.#options.clock.after(this.#backoff.next(), () => void this.probe())
  }
}

const bucketCount = 10

/** opossum opens above its threshold, this breaker at it. Rates of up to 1e9 calls differ by more than this. */
const thresholdEpsilonPercent = 1e-9

/** The longest that a timer of Node.js takes: opossum has no option for none. */
const maxTimerMs = 2 ** 31 - 1

/** One error for all: it is never read, and its stack trace would take 2 us. */
const callFailed = new Error('the call failed')
const failedCall = (): Promise<void> => Promise.reject(callFailed)
