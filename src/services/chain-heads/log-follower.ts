import type { Clock } from '../clock.ts'
import { sleep } from '../../util/async.ts'
import type { ChainUpdate, FeedBlock, FeedListener, LinkedBlock } from './block-feed.ts'
import type { BlockId } from './recent-blocks.ts'
import { maxRecentBlocks } from './recent-blocks.ts'

interface LogFollowerOptions {
  readonly clock: Clock
  /** ms until the logs of a block are requested again, when no upstream has returned them. */
  readonly retryIntervalMs: number
  /** JSON text of the array of the block's logs; undefined when no upstream returns it now. */
  fetchLogs(block: FeedBlock): Promise<string | undefined>
  publish(update: ChainUpdate): void
  /** Blocks would be missing. */
  end(): void
}

/** A block whose logs are to be published, or blocks that are removed. */
type FeedStep = { readonly block: FeedBlock } | { readonly removed: readonly LinkedBlock[] }

/**
 * Publishes the logs of each block of the feed `headers`, in its order. They are requested by the hash of the block, once. A block that is
 * removed before its logs are there is never published.
 */
export class LogFollower implements FeedListener {
  readonly #options: LogFollowerOptions
  #steps: FeedStep[] = []
  #run: Promise<void> | undefined
  #isStopped = false

  constructor(options: LogFollowerOptions) {
    this.#options = options
  }

  onUpdate({ removed, added }: ChainUpdate): void {
    const publishedBlocks = removed.filter(block => !this.#dropLast(block))
    if (publishedBlocks.length > 0) this.#steps.push({ removed: publishedBlocks })
    this.#steps.push(...added.map(block => ({ block })))
    if (this.#steps.length > maxRecentBlocks) this.onEnd()
    this.#run ??= this.#publishAll()
  }

  onEnd(): void {
    this.#steps = []
    this.#options.end()
  }

  stop(): void {
    this.#isStopped = true
    this.#steps = []
  }

  /** True when the block was not published yet, and is not going to be. */
  #dropLast({ hash }: BlockId): boolean {
    const last = this.#steps.at(-1)
    if (last === undefined || !('block' in last) || last.block.hash !== hash) return false
    this.#steps.pop()
    return true
  }

  /** Resolves when the logs of all blocks have been published. */
  async whenIdle(): Promise<void> {
    await this.#run
  }

  async #publishAll(): Promise<void> {
    // So that it has not ended when its promise is stored.
    await null
    for (let step = this.#steps[0]; step !== undefined; step = this.#steps[0]) {
      if ('removed' in step) this.#publishStep({ removed: step.removed, added: [] })
      else await this.#publishLogs(step)
    }
    this.#run = undefined
  }

  async #publishLogs(step: { readonly block: FeedBlock }): Promise<void> {
    const json = await this.#options.fetchLogs(step.block)
    // The block may have been removed meanwhile.
    if (this.#steps[0] !== step) return
    if (json !== undefined) this.#publishStep({ removed: [], added: [{ ...step.block, json }] })
    else if (!this.#isStopped) await sleep(this.#options.clock, this.#options.retryIntervalMs)
  }

  #publishStep(update: ChainUpdate): void {
    this.#steps.shift()
    this.#options.publish(update)
  }
}
