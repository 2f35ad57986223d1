import type { Target } from '../../call.ts'
import { refuse } from '../../reply.ts'
import type { Failure } from '../../reply.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Terms } from './terms.ts'

/** Ends one ask: when the caller leaves, at the deadline, or when a silent node turns out to hang. */
export class Watch {
  readonly #clock: Clock
  readonly #terms: Terms
  readonly #end = new AbortController()
  readonly #deadline: Timer
  #ear: Timer | undefined
  #why: 'left' | 'late' | 'hangs' | undefined
  #heard = false

  /** The deadline counts from here. */
  constructor(clock: Clock, terms: Terms) {
    this.#clock = clock
    this.#terms = terms
    this.#deadline = clock.after(terms.timeout, () => this.#abort('late'))
    if (terms.signal.aborted) this.#leave()
    else terms.signal.addEventListener('abort', this.#leave, { once: true })
  }

  get signal(): AbortSignal {
    return this.#end.signal
  }

  /** The request is about to be sent: silence counts from here. */
  listen(): void {
    const { silence } = this.#terms
    this.#ear = silence && this.#clock.after(silence.after, () => void this.#feel(silence.alive))
  }

  readonly hear = (): void => {
    this.#heard = true
  }

  end(): void {
    this.#deadline.cancel()
    this.#ear?.cancel()
    this.#terms.signal.removeEventListener('abort', this.#leave)
  }

  /** Why the ask was ended, if it was. Slow to begin is the query's affair; slow once it has begun is the node's. */
  explain({ source, name: upstream }: Target): Failure | undefined {
    switch (this.#why) {
      case 'left': return refuse('unavailable', { source, upstream, fault: 'caller', cause: 'the caller left' })
      case 'late': return this.#heard
        ? refuse('unavailable', { source, upstream, cause: 'the answer began in time and did not end in time' })
        : refuse('timeout', { source, upstream, fault: 'upstream', cause: 'no answer in time' })
      case 'hangs': return { ...refuse('unavailable', { source, upstream, cause: 'the node hangs' }), hangs: true }
      case undefined: return undefined
    }
  }

  readonly #leave = (): void => this.#abort('left')

  async #feel(alive: () => Promise<boolean>): Promise<void> {
    if (!this.#heard && !await alive() && !this.#heard) this.#abort('hangs')
  }

  #abort(why: 'left' | 'late' | 'hangs'): void {
    this.#why ??= why
    this.#end.abort()
  }
}
