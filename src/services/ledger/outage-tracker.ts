import { StoreError, StoreRemovedError } from '../../store/store.ts'
import { TimeoutError } from '../../util/async.ts'
import type { Log } from '../log.ts'
import type { StoreOutage } from './store-outage.ts'

export interface OutageTrackerOptions {
  readonly log: Log
  /** Called when the store cannot be used any more, and with undefined when it can be used again. */
  onOutage?(reason: StoreOutage | undefined): void
}

/** Since when the store cannot be used, as the requests of this process find out; the log says when that begins and when it ends. */
export class OutageTracker {
  /** Of all outages so far. */
  count = 0
  readonly #options: OutageTrackerOptions
  #since = Infinity
  #outage: StoreOutage | undefined
  readonly #reasons = new Set<string>()
  /** Charges that this outage has refused. */
  #refusals = 0

  constructor(options: OutageTrackerOptions) {
    this.#options = options
  }

  /** Undefined while the store is available. */
  durationMs(now: number): number | undefined {
    return this.#since === Infinity ? undefined : now - this.#since
  }

  /** Nothing has been answered for so long that calls need not wait for it: the next heartbeat finds out when the store is back. */
  isStoreLost(now: number): boolean {
    return now - this.#since >= lostAfterMs
  }

  /** A charge is refused because the leased credits are used up, and the store cannot be asked. */
  recordRefusal(): void {
    if (this.#since === Infinity) return
    this.#refusals += 1
    if (this.#refusals === 1) this.#options.log.warn({ event: 'charges-refused' }, refusalsBegin)
  }

  recordResponse(): void {
    if (this.#since === Infinity) return
    const { log } = this.#options
    log.info({}, 'store reachable again')
    if (this.#refusals > 0) log.info({ event: 'charges-accepted', refused: this.#refusals }, 'calls are charged again')
    this.#refusals = 0
    this.#since = Infinity
    this.#setOutage(undefined)
  }

  /** An outage has a line for each reason, as the first one may be only that the connection was lost. */
  recordFailure(error: unknown, now: number): void {
    if (this.#since === Infinity) {
      this.#since = now
      this.count += 1
      this.#reasons.clear()
    }
    this.#setOutage(error instanceof StoreRemovedError ? 'removed' : 'unreachable')
    const reason = error instanceof Error ? error.message : String(error)
    if (this.#reasons.has(reason) || this.#reasons.size === maxOutageReasons) return
    this.#reasons.add(reason)
    const isKnown = error instanceof StoreError || error instanceof TimeoutError
    this.#options.log.warn(
      isKnown ? { cause: reason } : { err: error },
      'store unreachable: calls are charged to credits that are already leased',
    )
  }

  #setOutage(outage: StoreOutage | undefined): void {
    if (outage === this.#outage) return
    this.#outage = outage
    this.#options.onOutage?.(outage)
  }
}

/** Longer than a failover takes: after one, calls find out sooner than heartbeats that the store is back. */
const lostAfterMs = 10_000

/** Lines of one outage in the log. */
const maxOutageReasons = 5

const refusalsBegin = 'leased credits are used up and the store cannot be asked for more: calls are refused with -32002 until it answers'
