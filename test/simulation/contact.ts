/** How long a process waits for an answer at least, ms. */
const patience = 1_000

/** What a process can know of its store, as somebody outside sees it: which questions were answered, and when. */
export class Contact {
  /** When it last heard an answer in time. */
  heardAt: number
  readonly #now: () => number
  /** When those that are not answered yet were sent. */
  readonly #open = new Set<{ readonly sent: number }>()
  /** Since it last heard an answer in time one was not. */
  #hasFailed = false

  constructor(now: () => number) {
    this.#now = now
    this.heardAt = now()
  }

  /** Watches what becomes of a question. */
  follow<T>(answer: Promise<T>): Promise<T> {
    const question = { sent: this.#now() }
    this.#open.add(question)
    const end = (inTime: boolean): void => {
      this.#open.delete(question)
      if (inTime) this.heardAt = this.#now()
      this.#hasFailed = !inTime && (this.#hasFailed || this.#failsAfterIt(question.sent))
    }
    answer.then(
      () => end(this.#now() - question.sent <= patience),
      () => end(false),
    )
    return answer
  }

  /** May the process take the store for away? */
  get isAway(): boolean {
    return this.#hasFailed || [...this.#open].some(({ sent }) => this.#now() - sent >= patience && this.#failsAfterIt(sent))
  }

  /** Whoever waits in vain notices a little later. */
  #failsAfterIt(sent: number): boolean {
    return Math.min(sent + patience + 50, this.#now()) >= this.heardAt
  }
}
