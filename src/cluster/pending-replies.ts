import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'

/** Requests of one kind to the primary that wait for their replies. */
export class PendingReplies<Reply> {
  readonly #clock: Clock
  /** By the id of the request. */
  readonly #resolvers = new Map<number, (reply: Reply) => void>()
  #lastId = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `send` gets the id of the request. Resolves with the reply; with `fallback()` when none comes in time. */
  async request<Fallback>(timeoutMs: number, send: (id: number) => void, fallback: () => Fallback): Promise<Reply | Fallback> {
    const id = (this.#lastId += 1)
    const reply = new Promise<Reply>(resolve => this.#resolvers.set(id, resolve))
    send(id)
    const received = await withTimeoutOr(this.#clock, timeoutMs, reply, fallback)
    this.#resolvers.delete(id)
    return received
  }

  resolve(id: number, reply: Reply): void {
    this.#resolvers.get(id)?.(reply)
  }

  /** One reply to this request and to those before it. */
  resolveThrough(lastId: number, reply: Reply): void {
    for (const [id, resolve] of this.#resolvers) if (id <= lastId) resolve(reply)
  }
}
