import type { Target } from '../../call.ts'
import { refuse } from '../../reply.ts'
import type { Failure } from '../../reply.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Waiter } from './gate.ts'
import type { Terms } from './terms.ts'

/** Bytes that no node drips within the time of a call: a query for so much may be what takes long. */
const long = 1_048_576

/** Ends one ask: when the caller leaves, at the deadline, or when a silent node turns out to hang. */
export class Watch implements Waiter {
  whenOver: (() => void) | undefined
  readonly #clock: Clock
  readonly #terms: Terms
  readonly #deadline: number
  #timer: Timer | undefined
  #why: 'left' | 'late' | 'hangs' | undefined
  /** Bytes of the answer so far. */
  #heard = 0

  /** The deadline counts from here. */
  constructor(clock: Clock, terms: Terms) {
    this.#clock = clock
    this.#terms = terms
    this.#deadline = clock.monotonic() + terms.timeout
    if (terms.signal.aborted) this.#leave()
    else terms.signal.addEventListener('abort', this.#leave)
  }

  get isOver(): boolean {
    return this.#why !== undefined
  }

  /** The ask has to wait: only the deadline counts. */
  wait(): void {
    this.#setTimer(this.#deadline - this.#clock.monotonic(), () => this.#endAs('late'))
  }

  /** The request is about to be sent: silence counts from here. One timer at a time, as each costs a microsecond. */
  listen(): void {
    const { silence } = this.#terms
    const left = this.#deadline - this.#clock.monotonic()
    if (silence === undefined || silence.after >= left) return this.wait()
    this.#setTimer(silence.after, () => {
      this.wait()
      if (this.#heard === 0) void this.#feel(silence.alive)
    })
  }

  /** So many bytes of the answer have come. */
  hear(bytes: number): void {
    this.#heard += bytes
  }

  end(): void {
    this.whenOver = undefined
    this.#timer?.cancel()
    this.#terms.signal.removeEventListener('abort', this.#leave)
  }

  /**
   * Why the ask was ended, if it was. Slow to begin is the query's affair, and so is an answer that is long; slow once a
   * short one has begun is the node's.
   */
  explain({ source, name: upstream }: Target): Failure | undefined {
    switch (this.#why) {
      case 'left':
        return refuse('unavailable', { source, upstream, fault: 'caller', cause: 'the caller left' })
      case 'late':
        return this.#heard > 0 && this.#heard < long
          ? refuse('unavailable', { source, upstream, cause: 'the answer began in time and did not end in time' })
          : refuse('timeout', { source, upstream, fault: 'upstream', cause: 'no answer in time' })
      case 'hangs':
        return { ...refuse('unavailable', { source, upstream, cause: 'the node hangs' }), hangs: true }
      case undefined:
        return undefined
    }
  }

  readonly #leave = (): void => this.#endAs('left')

  #setTimer(ms: number, run: () => void): void {
    this.#timer?.cancel()
    this.#timer = this.#clock.after(Math.max(0, ms), run)
  }

  async #feel(alive: () => Promise<boolean>): Promise<void> {
    if (!(await alive()) && this.#heard === 0) this.#endAs('hangs')
  }

  #endAs(why: 'left' | 'late' | 'hangs'): void {
    if (this.#why !== undefined) return
    this.#why = why
    this.whenOver?.()
  }
}
