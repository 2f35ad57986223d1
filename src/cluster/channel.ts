/** How messages of one kind go to another process. */
export interface ChannelOptions<M> {
  /** `sent` is to be called when the message has left this process, or never will. */
  send(message: M, sent: () => void): void
  /** Of one topic only the newest need arrive. */
  topicOf(message: M): string
  /** One message that says what both do, the older one first. */
  coalesce(older: M, newer: M): M
}

/**
 * Messages to a process that may not read them: one that is stopped, or busy for long. While its pipe is full, what is
 * said waits here, one message for each topic: what a process costs that does not read is bounded, and the news that it
 * finds when it reads again are the newest.
 */
export class Channel<M> {
  readonly #options: ChannelOptions<M>
  readonly #pending = new Map<string, M>()
  #inTransitCount = 0

  constructor(terms: ChannelOptions<M>) {
    this.#options = terms
  }

  send(message: M): void {
    if (this.#inTransitCount === 0) return this.#transmit(message)
    const topic = this.#options.topicOf(message)
    const older = this.#pending.get(topic)
    // It goes to the end: what it follows from has been said before it.
    this.#pending.delete(topic)
    this.#pending.set(topic, older === undefined ? message : this.#options.coalesce(older, message))
  }

  #transmit(message: M): void {
    this.#inTransitCount += 1
    this.#options.send(message, () => {
      this.#inTransitCount -= 1
      if (this.#inTransitCount === 0) this.#flush()
    })
  }

  #flush(): void {
    const messages = [...this.#pending.values()]
    this.#pending.clear()
    for (const message of messages) this.#transmit(message)
  }
}
