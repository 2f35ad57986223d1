import type { Json, Services, Timer } from '../../src/plugin/plugin.ts'
import { toTrustedHeader } from './block-header.ts'
import type { TrustedHeader } from './block-header.ts'

type HeaderSubscription = ReturnType<Services['heads']['feeds']['headers']['subscribe']>

/** The feed is left when so long no call has needed it: while it has listeners, nodes are polled. */
const idleMs = 60_000

/** Headers of new blocks as the feed has them, while calls need headers: what calls link to them is not requested again. */
export class FeedHeaders {
  readonly #services: Pick<Services, 'heads' | 'clock'>
  readonly #record: (header: TrustedHeader) => void
  #subscription: HeaderSubscription | undefined
  #timer: Timer | undefined
  #usedAt = -Infinity

  constructor(record: (header: TrustedHeader) => void, services: Pick<Services, 'heads' | 'clock'>) {
    this.#record = record
    this.#services = services
  }

  /** A call needs headers of new blocks. */
  use(): void {
    const { heads, clock } = this.#services
    this.#usedAt = clock.monotonic()
    if (this.#subscription !== undefined) return
    const subscription = heads.feeds.headers.subscribe({
      onUpdate: ({ added }) => added.forEach(({ json }) => this.#recordJson(json)),
      onEnd: () => this.stop(),
    })
    this.#subscription = subscription
    void subscription.isStarted.then(isStarted => {
      if (!isStarted && this.#subscription === subscription) this.stop()
    })
    this.#timer ??= clock.every(idleMs, () => {
      if (clock.monotonic() - this.#usedAt >= idleMs) this.stop()
    })
  }

  stop(): void {
    this.#subscription?.close()
    this.#subscription = undefined
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #recordJson(json: string): void {
    const value: Json = JSON.parse(json)
    const header = toTrustedHeader(value, () => true)
    if (header !== undefined) this.#record(header)
  }
}
