import type { Clock } from '../clock.ts'
import type { Head } from './heads-types.ts'
import { parseBlockReply } from './upstream-requests.ts'
import type { BlockHeader, UpstreamRequester } from './upstream-requests.ts'

/** Failed polls in a row after which the last head of an upstream no longer counts. */
const maxFailedPolls = 3

/** The newest block that an upstream has reported. It stays known while the upstream does not answer. Times are ms since 1970. */
export interface SeenHead {
  readonly number: number
  /** When it was reported first. */
  readonly since: number
  /** When polls or the subscription have returned the newest block last, be it another one or the same. */
  readonly checkedAt: number
}

/** The head of one upstream: from polls, from its subscription, and from answers to callers. */
export class UpstreamHead {
  readonly #clock: Clock
  #lastSeen: SeenHead | undefined
  #head: Head | undefined
  #latestBlock: BlockHeader | undefined
  #failedPolls = 0
  #headsReceived = 0
  #isOutdated = false
  /** The highest height in answers to callers, and that of the last notification, since the last poll began. */
  #observedHeight = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get head(): Head | undefined {
    return this.#head
  }

  /** Undefined before the first. */
  get lastSeen(): SeenHead | undefined {
    return this.#lastSeen
  }

  /** The newest block that polls or the subscription returned, as long as the upstream answers. */
  get latestBlock(): BlockHeader | undefined {
    return this.#head === undefined ? undefined : this.#latestBlock
  }

  /** Is it from before a time without polls? Others are newer then, and it says nothing about how far the upstream lags. */
  get isOutdated(): boolean {
    return this.#isOutdated
  }

  /** How many heads polls and the subscription have returned. */
  get headsReceived(): number {
    return this.#headsReceived
  }

  /** The block that this poll returns is newer than every answer and notification until now. */
  beginPoll(): void {
    this.#observedHeight = 0
  }

  /** The subscription has returned the newest block: a poll in flight may return an older one. */
  recordNotification(block: BlockHeader): void {
    this.#observedHeight = 0
    this.update(block)
    this.#observedHeight = block.number
  }

  /** A poll, or the subscription, has returned the newest block. */
  update(block: BlockHeader): void {
    this.#failedPolls = 0
    this.#headsReceived += 1
    this.#isOutdated = false
    this.#lastSeen = { ...(this.#lastSeen ?? this.#seenNow(block.number)), checkedAt: this.#clock.now() }
    // An answer to a caller, or a notification, has overtaken the poll.
    if (block.number < this.#observedHeight) return
    if (block.number !== this.#lastSeen.number) this.#lastSeen = this.#seenNow(block.number)
    this.#head = { number: block.number, hash: block.hash, ...(block.timestampMs !== undefined && { timestampMs: block.timestampMs }) }
    this.#latestBlock = block
  }

  /** No polls from now on. */
  recordPause(): void {
    this.#isOutdated = true
  }

  /** A poll has returned no block. */
  recordFailure(): void {
    this.#failedPolls += 1
    if (this.#failedPolls >= maxFailedPolls) this.#head = undefined
  }

  /** An answer to a caller contained this height. It may be that of an old block, so that it is no head where none is known. */
  observeHeight(number: number): void {
    this.#observedHeight = Math.max(this.#observedHeight, number)
    if (this.#head === undefined || number <= this.#head.number) return
    this.#head = { number }
    this.#lastSeen = { ...this.#seenNow(number), checkedAt: this.#lastSeen?.checkedAt ?? this.#clock.now() }
  }

  #seenNow(number: number): SeenHead {
    const now = this.#clock.now()
    return { number, since: now, checkedAt: now }
  }
}

interface FinalizedBlockOptions {
  readonly clock: Clock
  /** ms between requests. */
  readonly intervalMs: number
  readonly request: UpstreamRequester
  /** -1 while the upstream has no head. */
  headNumber(): number
}

/** The newest finalized block that one upstream names. */
export class FinalizedBlock {
  readonly #options: FinalizedBlockOptions
  #block: BlockHeader | undefined
  #dueAt = 0
  #discards = 0

  constructor(options: FinalizedBlockOptions) {
    this.#options = options
  }

  get block(): BlockHeader | undefined {
    return this.#block
  }

  /** The block was reverted, or is implausible: it is requested again with the next poll. */
  discard(): void {
    this.#discards += 1
    this.#block = undefined
    this.#dueAt = 0
  }

  /**
   * Requests the block when that is due. True when there is a new one. The block counts only if `isConfirmed` agrees. If finality was
   * reverted during the request, the response may be older than that and is dropped.
   */
  async poll(isConfirmed: (reported: BlockHeader) => Promise<boolean>): Promise<boolean> {
    const { clock, intervalMs, request, headNumber } = this.#options
    const now = clock.monotonic()
    if (now < this.#dueAt) return false
    this.#dueAt = now + intervalMs
    const [previous, discardsBefore] = [this.#block, this.#discards]
    const reported = parseBlockReply(await request('eth_getBlockByNumber', 'finalized', false))
    // A finalized block above the upstream's own head is implausible.
    if (reported === undefined || reported.number > headNumber() || reported.hash === previous?.hash) return false
    const isAgreed = await isConfirmed(reported)
    if (discardsBefore !== this.#discards) return false
    if (isAgreed) this.#block = reported
    else this.discard()
    return isAgreed
  }
}
