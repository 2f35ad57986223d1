import type { Target } from '../../plugin/call.ts'
import type { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import { NodeSubscription } from './node-subscription.ts'
import { parseBlockHeader } from './upstream-requests.ts'
import type { BlockHeader } from './upstream-requests.ts'

interface NewHeadsSubscriptionOptions {
  /** The name of the upstream. */
  readonly upstream: string
  readonly url: Secret
  readonly headers?: Target['headers'] | undefined
  /** The chain ID of the network. */
  readonly chainId: number
  /** ms without a head after which the subscription is stale. */
  readonly staleAfterMs: number
  readonly clock: Clock
  readonly log: Log
  /** From 0 to below 1. */
  random(): number
  onHead(block: BlockHeader): void
  /** Heads will come from now on. After a resubscription another node may be at the URL. */
  onSubscribed(isResubscription: boolean): void
}

/** A header takes 2 KB. */
const maxPayloadBytes = 131_072
/** Heads that polls return before the subscription does: with so many the subscription counts as dead. */
const maxMissedHeads = 2

/** The newHeads subscription of one upstream. */
export class NewHeadsSubscription {
  readonly #options: NewHeadsSubscriptionOptions
  readonly #subscription: NodeSubscription
  #wasSubscribed = false
  #isFailureReported = false
  #subscribedAt = 0
  /** Is a head known that is at least as new as the subscription? */
  #isHeadKnown = false
  #lastHeadAt = 0
  #lastHead: BlockHeader | undefined
  #missedHeads = 0

  constructor(options: NewHeadsSubscriptionOptions) {
    this.#options = options
    this.#subscription = new NodeSubscription({
      ...options,
      params: ['newHeads'],
      maxPayloadBytes,
      onSubscribed: () => this.#handleSubscribed(),
      onEvent: result => this.#handleHead(result),
      onFailure: cause => this.#handleFailure(cause),
    })
  }

  /**
   * Has a head come, or the subscription begun, less than `staleAfterMs` ago? The blocks from before it began are not published:
   * before the first head, a poll must have returned one.
   */
  get isFresh(): boolean {
    if (!this.#subscription.isSubscribed || !this.#isHeadKnown) return false
    return this.#options.clock.monotonic() - this.#lastHeadAt < this.#options.staleAfterMs
  }

  /** Connects, unless it is open. */
  open(): void {
    this.#subscription.open()
  }

  close(): void {
    this.#subscription.close()
    this.#forgetHeads()
  }

  /** A poll that was sent at `sentAt` has returned this head. If the subscription misses heads that polls return, it is dead. */
  comparePolledHead(polled: BlockHeader, sentAt: number): void {
    if (sentAt >= this.#subscribedAt) this.#isHeadKnown = true
    if (!this.#subscription.isSubscribed || this.#lastHead === undefined || polled.number <= this.#lastHead.number) return
    this.#missedHeads += 1
    if (this.#missedHeads >= maxMissedHeads) this.#subscription.fail('polls return heads that the subscription does not')
  }

  #handleSubscribed(): void {
    this.#subscribedAt = this.#lastHeadAt = this.#options.clock.monotonic()
    this.#isHeadKnown = false
    const isResubscription = this.#wasSubscribed
    this.#wasSubscribed = true
    this.#isFailureReported = false
    const { upstream, log } = this.#options
    log.info({ upstream }, 'newHeads subscription established')
    this.#options.onSubscribed(isResubscription)
  }

  #handleHead(result: unknown): void {
    const block = parseBlockHeader(result)
    if (block === undefined) return
    this.#lastHeadAt = this.#options.clock.monotonic()
    this.#lastHead = block
    this.#isHeadKnown = true
    this.#missedHeads = 0
    this.#subscription.recordSuccess()
    this.#options.onHead(block)
  }

  #handleFailure(cause: string): void {
    this.#forgetHeads()
    const { upstream, log } = this.#options
    if (!this.#isFailureReported) log.warn({ upstream, cause }, 'newHeads subscription failed: heads are polled')
    this.#isFailureReported = true
  }

  #forgetHeads(): void {
    this.#missedHeads = 0
    this.#lastHead = undefined
  }
}
