import type { Target } from '../../plugin/call.ts'
import { copyReply, refuse } from '../../plugin/reply.ts'
import type { Failure } from '../../plugin/reply.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Waiter } from './concurrency-limit.ts'
import type { RequestOptions } from './request-options.ts'

/** Bytes that no node drips within the time of a call: a query for so much may be what takes long. */
const longResponseBytes = 1_048_576

/** Ends one ask: when the caller leaves, at the deadline, or when a silent node turns out to hang. */
export class RequestDeadline implements Waiter {
  onCancel: (() => void) | undefined
  readonly #clock: Clock
  readonly #options: RequestOptions
  readonly #deadlineAt: number
  #timer: Timer | undefined
  #reason: 'left' | 'late' | 'hangs' | undefined
  /** Bytes of the answer so far. */
  #receivedBytes = 0

  /** The deadline counts from here. */
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

  /** The ask has to wait: only the deadline counts. */
  startDeadline(): void {
    this.#setTimer(this.#deadlineAt - this.#clock.monotonic(), () => this.#cancel('late'))
  }

  /** The request is about to be sent: silence counts from here. One timer at a time, as each costs a microsecond. */
  startProbe(): void {
    const { livenessProbe } = this.#options
    const remainingMs = this.#deadlineAt - this.#clock.monotonic()
    if (livenessProbe === undefined || livenessProbe.afterMs >= remainingMs) return this.startDeadline()
    this.#setTimer(livenessProbe.afterMs, () => {
      this.startDeadline()
      if (this.#receivedBytes === 0) void this.#probeLiveness(livenessProbe.isAlive)
    })
  }

  /** So many bytes of the answer have come. */
  recordBytes(bytes: number): void {
    this.#receivedBytes += bytes
  }

  stop(): void {
    this.onCancel = undefined
    this.#timer?.cancel()
    this.#options.signal.removeEventListener('abort', this.#onAbort)
  }

  /**
   * Why the ask was ended, if it was. Slow to begin is the query's affair, and so is an answer that is long; slow once a
   * short one has begun is the node's.
   */
  toFailure({ source, name: upstream }: Target): Failure | undefined {
    switch (this.#reason) {
      case 'left':
        return refuse('unavailable', { source, upstream, fault: 'caller', cause: 'the caller left' })
      case 'late':
        return this.#receivedBytes > 0 && this.#receivedBytes < longResponseBytes
          ? refuse('unavailable', { source, upstream, cause: 'the answer began in time and did not end in time' })
          : refuse('timeout', { source, upstream, fault: 'upstream', cause: 'no answer in time' })
      case 'hangs':
        return copyReply(refuse('unavailable', { source, upstream, cause: 'the node hangs' }), { unresponsive: true })
      case undefined:
        return undefined
    }
  }

  readonly #onAbort = (): void => this.#cancel('left')

  #setTimer(ms: number, run: () => void): void {
    this.#timer?.cancel()
    this.#timer = this.#clock.after(Math.max(0, ms), run)
  }

  async #probeLiveness(isAlive: () => Promise<boolean>): Promise<void> {
    if (!(await isAlive()) && this.#receivedBytes === 0) this.#cancel('hangs')
  }

  #cancel(reason: 'left' | 'late' | 'hangs'): void {
    if (this.#reason !== undefined) return
    this.#reason = reason
    this.onCancel?.()
  }
}
