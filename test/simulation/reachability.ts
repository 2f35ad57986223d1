import { storeTimeoutMs } from '../../src/store/store.ts'

/** What a process can know of its store: which requests were answered, and when. */
export class Reachability {
  /** The time of the last response within the timeout. */
  lastAnsweredAt: number
  readonly #now: () => number
  /** Requests in flight. */
  readonly #unanswered = new Set<{ readonly sentAt: number }>()
  /** A request has failed since then. */
  #hasFailed = false

  constructor(now: () => number) {
    this.#now = now
    this.lastAnsweredAt = now()
  }

  track<T>(response: Promise<T>): Promise<T> {
    const request = { sentAt: this.#now() }
    this.#unanswered.add(request)
    const end = (inTime: boolean): void => {
      this.#unanswered.delete(request)
      if (inTime) this.lastAnsweredAt = this.#now()
      this.#hasFailed = !inTime && (this.#hasFailed || this.#failsAfterLastAnswer(request.sentAt))
    }
    response.then(
      () => end(this.#now() - request.sentAt <= storeTimeoutMs),
      () => end(false),
    )
    return response
  }

  /** May the process consider the store unavailable? */
  get maySeemUnavailable(): boolean {
    return (
      this.#hasFailed ||
      [...this.#unanswered].some(({ sentAt }) => this.#now() - sentAt >= storeTimeoutMs && this.#failsAfterLastAnswer(sentAt))
    )
  }

  /** A timeout is noticed up to 50 ms late. */
  #failsAfterLastAnswer(sentAt: number): boolean {
    return Math.min(sentAt + storeTimeoutMs + 50, this.#now()) >= this.lastAnsweredAt
  }
}
