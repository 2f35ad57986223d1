/** How messages of one kind go to another process. */
export interface OutboxTerms<M> {
  /** `sent` is to be called when the message has left this process, or never will. */
  send(message: M, sent: () => void): void
  /** Of one topic only the newest need arrive. */
  topicOf(message: M): string
  /** One message that says what both do, the older one first. */
  merge(older: M, newer: M): M
}

/**
 * Messages to a process that may not read them: one that is stopped, or busy for long. While its pipe is full, what is
 * said waits here, one message for each topic: what a process costs that does not read is bounded, and the news that it
 * finds when it reads again are the newest.
 */
export class Outbox<M> {
  readonly #terms: OutboxTerms<M>
  readonly #waiting = new Map<string, M>()
  #leaving = 0

  constructor(terms: OutboxTerms<M>) {
    this.#terms = terms
  }

  say(message: M): void {
    if (this.#leaving === 0) return this.#send(message)
    const topic = this.#terms.topicOf(message)
    const older = this.#waiting.get(topic)
    // It goes to the end: what it follows from has been said before it.
    this.#waiting.delete(topic)
    this.#waiting.set(topic, older === undefined ? message : this.#terms.merge(older, message))
  }

  #send(message: M): void {
    this.#leaving += 1
    this.#terms.send(message, () => {
      this.#leaving -= 1
      if (this.#leaving === 0) this.#sendAll()
    })
  }

  #sendAll(): void {
    const messages = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const message of messages) this.#send(message)
  }
}
