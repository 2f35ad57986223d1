import { sleep, withTimeoutOr } from '../../../util/async.ts'
import type { Clock } from '../../clock.ts'
import type { Log } from '../../log.ts'
import type { CanonicalChain } from '../canonical-chain.ts'
import { maxRecentBlocks } from '../recent-blocks.ts'
import type { BlockId, LinkedBlock } from '../recent-blocks.ts'
import type { FetchedLogs } from '../upstream-requests.ts'
import type { ChainUpdate, Feed, FeedBlock, FeedListener, FeedSource, FeedSubscription } from './block-feed.ts'
import { startTimeoutMs } from './header-source.ts'

interface LogSourceOptions {
  readonly clock: Clock
  readonly log: Log
  readonly pollIntervalMs: number
  readonly chain: Pick<CanonicalChain, 'upstreams'>
  /** The blocks whose logs are published. */
  readonly headers: Feed
  publish(update: ChainUpdate): void
  /** Blocks would be missing. */
  end(): void
}

/** Requests for the logs of a block, to one upstream after the other, before an empty answer counts that the header contradicts. */
const minEmptyAnswers = 8

/** The logs of each block of the feed `headers`. A block whose logs exceed a limit ends the feed: those who start it anew get what follows. */
export class LogSource implements FeedSource {
  readonly #options: LogSourceOptions
  #running: { readonly follower: LogFollower; readonly subscription: FeedSubscription } | undefined
  /** Empty answers about the block whose logs are requested, which its header contradicts. */
  #emptyAnswers = { hash: '', count: 0 }

  constructor(options: LogSourceOptions) {
    this.#options = options
  }

  start(onStarted: () => void): Promise<boolean> {
    const { pollIntervalMs: retryIntervalMs, headers } = this.#options
    const follower = new LogFollower({ ...this.#options, retryIntervalMs, fetchLogs: block => this.#fetchLogs(block) })
    const subscription = headers.subscribe(follower, onStarted)
    this.#running = { follower, subscription }
    return subscription.isStarted
  }

  stop(): void {
    this.#running?.subscription.close()
    this.#running?.follower.stop()
  }

  async sync(onSynced: () => void): Promise<void> {
    await this.#options.headers.sync()
    const idle = this.#running?.follower.whenIdle() ?? Promise.resolve()
    await withTimeoutOr(this.#options.clock, startTimeoutMs, idle, () => undefined)
    onSynced()
  }

  /** A node that does not know the block yet may answer that it has no logs: the header tells better. */
  async #fetchLogs(block: FeedBlock): Promise<FetchedLogs | undefined> {
    let exceeded: FetchedLogs | undefined
    for (const upstream of this.#options.chain.upstreams) {
      const logs = await upstream.fetchLogs(block.hash)
      if (logs === undefined) continue
      if ('exceededLimit' in logs) exceeded ??= logs
      else if (!isEmptyArray(logs.json) || !hasLogs(block) || this.#countEmptyAnswer(block) >= minEmptyAnswers) return logs
    }
    return exceeded
  }

  #countEmptyAnswer({ hash }: FeedBlock): number {
    if (this.#emptyAnswers.hash !== hash) this.#emptyAnswers = { hash, count: 0 }
    return (this.#emptyAnswers.count += 1)
  }
}

const isEmptyArray = (json: string): boolean => /^\s*\[\s*\]\s*$/.test(json)

/** The bloom filter of a block without logs is zero. Some networks leave it zero in every block. */
const hasLogs = ({ json }: FeedBlock): boolean => /"logsBloom":"0x0*[^0"]/.test(json)

interface LogFollowerOptions extends Pick<LogSourceOptions, 'clock' | 'log' | 'publish' | 'end'> {
  /** ms until the logs of a block are requested again, when no upstream has returned them. */
  readonly retryIntervalMs: number
  /** The block's logs; undefined when no upstream returns them now. */
  fetchLogs(block: FeedBlock): Promise<FetchedLogs | undefined>
}

/** A block whose logs are to be published, or blocks that are removed. */
type FeedStep = { readonly block: FeedBlock } | { readonly removed: readonly LinkedBlock[] }

/**
 * Publishes the logs of each block of the feed `headers`, in its order. They are requested by the hash of the block, once. A block that is
 * removed before its logs are there is never published.
 */
class LogFollower implements FeedListener {
  readonly #options: LogFollowerOptions
  #steps: FeedStep[] = []
  #run: Promise<void> | undefined

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
    const logs = await this.#options.fetchLogs(step.block)
    // The block may have been removed meanwhile.
    if (this.#steps[0] !== step) return
    if (logs === undefined) await sleep(this.#options.clock, this.#options.retryIntervalMs)
    else if ('exceededLimit' in logs) this.#endAt(step.block, logs.exceededLimit)
    else this.#publishStep({ removed: [], added: [{ ...step.block, json: logs.json }] })
  }

  #endAt({ number, hash }: BlockId, limit: string): void {
    this.#options.log.error({ block: number, hash, limit }, 'the logs of a block exceed a limit: subscriptions to logs, and filters, end')
    this.onEnd()
  }

  #publishStep(update: ChainUpdate): void {
    this.#steps.shift()
    this.#options.publish(update)
  }
}
