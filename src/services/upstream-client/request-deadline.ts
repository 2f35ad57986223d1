import type { Origin, Signal, Target } from '../../plugin/call.ts'
import { copyReply, refuse } from '../../plugin/reply.ts'
import type { Failure } from '../../plugin/reply.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Waiter } from './concurrency-limit.ts'

/** How one request is sent to a node, and its limits. */
export interface RequestOptions {
  /** Longest time until the whole response is there, in ms. The time in the queue of the target's `concurrency` counts too. */
  readonly timeoutMs: number
  /** Most bytes of a response; of a compressed one, most bytes after decompression. */
  readonly maxBytes: number
  /** The caller has disconnected: cancel the request. */
  readonly signal: Signal
  readonly livenessProbe?: LivenessProbe
  /** The request may be sent twice: it is resent when a kept-alive connection turns out to be closed. */
  readonly idempotent?: boolean
  /** Gets the response as it comes, decompressed. */
  readonly observer?: { push(bytes: Uint8Array): void } | undefined
  /** The node waits before it answers: the request counts apart in the target's `concurrency`, so that such requests keep no others waiting. */
  readonly waits?: boolean
  /** For health checks: does not wait for the target's `concurrency`. */
  readonly bypassConcurrencyLimit?: boolean
  /** Of the call that the request is for: while requests wait for the target's `concurrency`, accounts are served in turn. */
  readonly origin?: Origin
  /** The W3C trace context of the call that the request is for, sent to own nodes as the header of this name. */
  readonly traceparent?: string | undefined
}

interface LivenessProbe {
  readonly afterMs: number
  /** Called once when `afterMs` pass with few bytes or none; false means that the node is unresponsive, which ends the request. */
  isAlive(): Promise<boolean>
  /** So many bytes of the response have come. */
  recordBytes?(bytes: number): void
}

/** More bytes than a slow node drips within the time of a call: then it is the size of the response that takes long. */
const longResponseBytes = 1_048_576

type CancelReason = 'aborted' | 'timeout' | 'unresponsive'

/** Cancels one request: when the caller disconnects, at the deadline, or when a silent node turns out to be unresponsive. */
export class RequestDeadline implements Waiter {
  onCancel: (() => void) | undefined
  readonly #clock: Clock
  readonly #options: RequestOptions
  readonly #deadlineAt: number
  readonly #onAbort = (): void => this.#cancel('aborted')
  #timer: Timer | undefined
  #reason: CancelReason | undefined
  #isSent = false
  /** Bytes of the response so far. */
  #receivedBytes = 0

  /** The time counts from here. */
  constructor(clock: Clock, options: RequestOptions) {
    this.#clock = clock
    this.#options = options
    this.#deadlineAt = clock.monotonic() + options.timeoutMs
    if (options.signal.aborted) this.#onAbort()
    else options.signal.addEventListener('abort', this.#onAbort)
  }

  get isCanceled(): boolean {
    return this.#reason !== undefined
  }

  /** The request is in the queue: only the deadline counts. */
  startDeadline(): void {
    this.#setTimer(this.#deadlineAt - this.#clock.monotonic(), () => this.#cancel('timeout'))
  }

  /** The request is about to be sent: silence counts from here. One timer at a time, as each costs a microsecond. */
  startProbe(): void {
    const { livenessProbe } = this.#options
    const remainingMs = this.#deadlineAt - this.#clock.monotonic()
    if (livenessProbe === undefined || livenessProbe.afterMs >= remainingMs) return this.startDeadline()
    this.#setTimer(livenessProbe.afterMs, () => {
      this.startDeadline()
      if (this.#receivedBytes < longResponseBytes) void this.#probeLiveness(livenessProbe.isAlive)
    })
  }

  /** The node gets the request. */
  recordSent(): void {
    this.#isSent = true
  }

  /** So many bytes of the response have come. */
  recordBytes(bytes: number): void {
    this.#receivedBytes += bytes
    this.#options.livenessProbe?.recordBytes?.(bytes)
  }

  stop(): void {
    this.onCancel = undefined
    this.#timer?.cancel()
    this.#options.signal.removeEventListener('abort', this.#onAbort)
  }

  /**
   * Why the request was canceled, if it was. A caller who leaves before the node got the request has caused no work. A response
   * that begins late, or is long, is due to the query; a short response that begins and does not end is due to the node.
   */
  toFailure(target: Target): Failure | undefined {
    const { source, name: upstream } = target
    switch (this.#reason) {
      case 'aborted':
        return refuse('unavailable', {
          source: this.#isSent ? source : 'gateway',
          upstream,
          fault: 'caller',
          cause: 'client disconnected',
        })
      case 'timeout':
        return this.#receivedBytes > 0 && this.#receivedBytes < longResponseBytes
          ? refuse('unavailable', { source, upstream, cause: 'response incomplete at the deadline' })
          : refuse('timeout', { source, upstream, fault: 'upstream', cause: 'upstream request timeout' })
      case 'unresponsive':
        return unresponsive(target)
      case undefined:
        return undefined
    }
  }

  #setTimer(ms: number, run: () => void): void {
    this.#timer?.cancel()
    this.#timer = this.#clock.after(Math.max(0, ms), run)
  }

  async #probeLiveness(isAlive: () => Promise<boolean>): Promise<void> {
    if (!(await isAlive())) this.#cancel('unresponsive')
  }

  #cancel(reason: CancelReason): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.onCancel?.()
  }
}

/** The node hangs: it has not even answered the liveness probe. */
export const unresponsive = ({ source, name: upstream }: Target): Failure =>
  copyReply(refuse('unavailable', { source, upstream, cause: 'upstream unresponsive' }), { unresponsive: true })
