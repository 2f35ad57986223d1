import type { Clock } from '../clock.ts'
import type { BlockHeader } from './block-header.ts'
import { LowPollCounter } from './height-watermark.ts'
import type { Head } from './chain-state.ts'

/** A failing node's head counts no longer after so many polls in a row. */
const maxFailedPolls = 3

export interface UpstreamHeadOptions {
  readonly clock: Clock
  /** ms between polls. */
  readonly pollIntervalMs: number
  /** Polls in a row without an answer after which a node has no say in the height. */
  readonly maxSilentPolls: number
  /** The height that callers were told. */
  reportedHeight(): number
}

/** How high a node is, by what it told last: when it was polled, unasked, or in answers to callers. */
export class UpstreamHead {
  readonly #options: UpstreamHeadOptions
  readonly #lowPolls: LowPollCounter
  #head: Head | undefined
  #latestBlock: BlockHeader | undefined
  #failedPolls = 0
  #headsReceived = 0
  /** The highest that callers were answered since the newest block was asked for. */
  #observedHeight = 0

  constructor(options: UpstreamHeadOptions) {
    this.#options = options
    this.#lowPolls = new LowPollCounter(options.clock, options.pollIntervalMs)
  }

  get head(): Head | undefined {
    return this.#head
  }

  /** The newest block that it has shown, as long as it answers. */
  get latestBlock(): BlockHeader | undefined {
    return this.#head === undefined ? undefined : this.#latestBlock
  }

  /** The head with its parent, when the node has shown it. */
  get headBlock(): BlockHeader | undefined {
    return this.#latestBlock !== undefined && this.#latestBlock.hash === this.#head?.hash ? this.#latestBlock : undefined
  }

  /** How often it has shown its head. */
  get headsReceived(): number {
    return this.#headsReceived
  }

  /** How often in a row it was below the height that callers were told. */
  get lowPolls(): number {
    return this.#lowPolls.count
  }

  get isSilent(): boolean {
    return this.#failedPolls >= this.#options.maxSilentPolls
  }

  /** The next block that it shows is newer than anything it answered to callers until now. */
  beginPoll(): void {
    this.#observedHeight = 0
  }

  /** It shows its newest block. */
  update(block: BlockHeader, isNotification: boolean): void {
    this.#failedPolls = 0
    this.#headsReceived += 1
    // A caller's answer overtook the poll.
    if (block.number < this.#observedHeight) return
    this.#lowPolls.record(block.number < this.#options.reportedHeight(), isNotification)
    this.#head = { number: block.number, hash: block.hash, ...(block.timestampMs !== undefined && { timestampMs: block.timestampMs }) }
    this.#latestBlock = block
  }

  /** It did not show its newest block when it was asked for it. */
  recordFailure(): void {
    this.#failedPolls += 1
    if (this.#failedPolls >= maxFailedPolls) this.#head = undefined
  }

  /** An answer of the node to a caller said how high it is. */
  observeHeight(number: number): void {
    this.#observedHeight = Math.max(this.#observedHeight, number)
    if (number >= this.#options.reportedHeight()) this.#lowPolls.record(false, true)
    if (this.#head === undefined || number > this.#head.number) this.#head = { number }
  }
}
