/** How long a process waits for an answer at least, ms. */
const storeTimeoutMs = 1_000

/** What a process can know of its store, as somebody outside sees it: which questions were answered, and when. */
export class Reachability {
  /** When it last heard an answer in time. */
  lastAnsweredAt: number
  readonly #now: () => number
  /** When those that are not answered yet were sent. */
  readonly #unanswered = new Set<{ readonly sent: number }>()
  /** Since it last heard an answer in time one was not. */
  #hasFailed = false

  constructor(now: () => number) {
    this.#now = now
    this.lastAnsweredAt = now()
  }

  /** Watches what becomes of a question. */
  track<T>(answer: Promise<T>): Promise<T> {
    const request = { sent: this.#now() }
    this.#unanswered.add(request)
    const end = (inTime: boolean): void => {
      this.#unanswered.delete(request)
      if (inTime) this.lastAnsweredAt = this.#now()
      this.#hasFailed = !inTime && (this.#hasFailed || this.#failsAfterLastAnswer(request.sent))
    }
    answer.then(
      () => end(this.#now() - request.sent <= storeTimeoutMs),
      () => end(false),
    )
    return answer
  }

  /** May the process take the store for away? */
  get maySeemUnavailable(): boolean {
    return (
      this.#hasFailed || [...this.#unanswered].some(({ sent }) => this.#now() - sent >= storeTimeoutMs && this.#failsAfterLastAnswer(sent))
    )
  }

  /** Whoever waits in vain notices a little later. */
  #failsAfterLastAnswer(sent: number): boolean {
    return Math.min(sent + storeTimeoutMs + 50, this.#now()) >= this.lastAnsweredAt
  }
}
