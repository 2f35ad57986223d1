import { sleep, withTimeoutOr } from '../../../util/async.ts'
import { HedgedSources } from '../../../util/hedged-sources.ts'
import type { Clock } from '../../clock.ts'
import type { Log } from '../../log.ts'
import type { CanonicalChain } from '../canonical-chain.ts'
import { maxRecentBlocks } from '../recent-blocks.ts'
import type { BlockId, LinkedBlock } from '../recent-blocks.ts'
import type { BlockDataKind, FailedBlockData, FetchedBlockData } from '../upstream-requests.ts'
import type { UpstreamTracker } from '../upstream-tracker.ts'
import type { ChainUpdate, Feed, FeedBlock, FeedListener, FeedSource, FeedSubscription } from './block-feed.ts'
import { startTimeoutMs } from './header-source.ts'

interface BlockDataSourceOptions {
  readonly kind: BlockDataKind
  readonly clock: Clock
  readonly log: Log
  readonly pollIntervalMs: number
  readonly chain: Pick<CanonicalChain, 'upstreams'>
  /** The blocks whose logs or receipts are published. */
  readonly headers: Feed
  publish(update: ChainUpdate): void
  /** Blocks would be missing. */
  end(): void
}

/** Requests about a block, to one upstream after the other, before an empty answer counts that the header contradicts. */
const minEmptyAnswers = 8
type BlockDataUpstream = Pick<UpstreamTracker, 'name' | 'fetchBlockData'>

/**
 * The logs, or the receipts, of each block of the feed `headers`. A block of which they exceed a limit at each upstream, or that each refuses, ends
 * the feed: those who start it anew get what follows.
 */
export class BlockDataSource implements FeedSource {
  readonly #options: BlockDataSourceOptions
  readonly #sources: HedgedSources
  #running: { readonly follower: BlockDataFollower; readonly subscription: FeedSubscription } | undefined
  /** Empty answers about the block that is requested, which its header contradicts. */
  #emptyAnswers = { hash: '', count: 0 }

  constructor(options: BlockDataSourceOptions) {
    this.#options = options
    this.#sources = new HedgedSources(options.clock)
  }

  start(onStarted: () => void): Promise<boolean> {
    const { pollIntervalMs: retryIntervalMs, headers } = this.#options
    const follower = new BlockDataFollower({ ...this.#options, retryIntervalMs, fetch: block => this.#fetch(block) })
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

  /** The first answer that counts; without one, what all of them have come to. */
  async #fetch(block: FeedBlock): Promise<FetchedBlockData> {
    const failures: FailedBlockData[] = []
    const found = await this.#sources.first(this.#options.chain.upstreams, async upstream => {
      const data = await this.#request(upstream, block)
      if (data !== undefined && 'json' in data) return data
      failures.push(data)
      return undefined
    })
    return found ?? summarizeFailures(failures)
  }

  /** A node that does not know the block yet may answer that it has none: the header tells better. */
  async #request(upstream: BlockDataUpstream, block: FeedBlock): Promise<FetchedBlockData> {
    const { kind } = this.#options
    const data = await upstream.fetchBlockData(kind, block.hash)
    if (data === undefined || !('json' in data) || !isEmptyArray(data.json) || !isFilled[kind](block)) return data
    return this.#countEmptyAnswer(block) >= minEmptyAnswers ? data : undefined
  }

  #countEmptyAnswer({ hash }: FeedBlock): number {
    if (this.#emptyAnswers.hash !== hash) this.#emptyAnswers = { hash, count: 0 }
    return (this.#emptyAnswers.count += 1)
  }
}

/** An upstream that may return them by and by is waited for; where another one says that they exceed a limit, not longer than for a refusal. */
const summarizeFailures = (failures: readonly FailedBlockData[]): FailedBlockData => {
  const exceeded = failures.find(failure => failure !== undefined && 'exceededLimit' in failure)
  const refused = failures.find(failure => failure !== undefined && 'refusal' in failure)
  const isOpen = failures.includes(undefined)
  if (exceeded === undefined) return isOpen ? undefined : refused
  return isOpen || refused !== undefined ? { refusal: exceeded.exceededLimit } : exceeded
}

const isEmptyArray = (json: string): boolean => /^\s*\[\s*\]\s*$/.test(json)

/**
 * Does the header say that the block has any? The bloom filter of a block without logs is zero, and the root of no receipts is that of an
 * empty trie. Some networks have a zero there in every block.
 */
const isFilled: Readonly<Record<BlockDataKind, (block: FeedBlock) => boolean>> = {
  logs: ({ json }) => /"logsBloom":"0x0*[^0"]/.test(json),
  receipts: ({ json }) => /"receiptsRoot":"0x0*[^0"]/.test(json) && !json.includes(`"receiptsRoot":"${emptyTrieRoot}"`),
}

const emptyTrieRoot = '0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421'

interface BlockDataFollowerOptions extends Pick<BlockDataSourceOptions, 'kind' | 'clock' | 'log' | 'publish' | 'end'> {
  /** ms until the logs or receipts of a block are requested again, when no upstream has returned them. */
  readonly retryIntervalMs: number
  /** Undefined when no upstream returns them now. */
  fetch(block: FeedBlock): Promise<FetchedBlockData>
}

/** A block whose logs or receipts are to be published, or blocks that are removed. */
type FeedStep = { readonly block: FeedBlock } | { readonly removed: readonly LinkedBlock[] }

/** For so long a block may be refused by each upstream: an upstream that is behind knows it by then. */
const maxRefusedMs = 60_000

/**
 * Publishes the logs, or the receipts, of each block of the feed `headers`, in its order. They are requested by the hash of the block, once. A
 * block that is removed before they are there is never published.
 */
class BlockDataFollower implements FeedListener {
  readonly #options: BlockDataFollowerOptions
  #steps: FeedStep[] = []
  #run: Promise<void> | undefined

  constructor(options: BlockDataFollowerOptions) {
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

  /** Resolves when all blocks have been published. */
  async whenIdle(): Promise<void> {
    await this.#run
  }

  async #publishAll(): Promise<void> {
    // So that it has not ended when its promise is stored.
    await null
    for (let step = this.#steps[0]; step !== undefined; step = this.#steps[0]) {
      if ('removed' in step) this.#publishStep({ removed: step.removed, added: [] })
      else await this.#publishBlock(step)
    }
    this.#run = undefined
  }

  /** Ends when the block has been published or removed, or the feed has ended. */
  async #publishBlock(step: { readonly block: FeedBlock }): Promise<void> {
    const { clock, retryIntervalMs, fetch } = this.#options
    let refusedSince: number | undefined
    for (;;) {
      const data = await fetch(step.block)
      // The block may have been removed meanwhile.
      if (this.#steps[0] !== step) return
      if (data !== undefined && 'json' in data) return this.#publishStep({ removed: [], added: [{ ...step.block, json: data.json }] })
      if (data !== undefined && 'exceededLimit' in data) return this.#endAt(step.block, { limit: data.exceededLimit }, 'exceed a limit')
      if (data !== undefined) {
        refusedSince ??= clock.monotonic()
        if (clock.monotonic() - refusedSince >= maxRefusedMs)
          return this.#endAt(step.block, { cause: data.refusal }, 'are refused by each upstream')
      }
      await sleep(clock, retryIntervalMs)
    }
  }

  #endAt({ number, hash }: BlockId, reason: { readonly limit: string } | { readonly cause: string }, what: string): void {
    const { kind, log } = this.#options
    log.error({ block: number, hash, ...reason }, `the ${kind} of a block ${what}: subscriptions to ${kind} end`)
    this.onEnd()
  }

  #publishStep(update: ChainUpdate): void {
    this.#steps.shift()
    this.#options.publish(update)
  }
}
