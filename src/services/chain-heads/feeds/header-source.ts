import { nextFlight, sleep } from '../../../util/async.ts'
import type { Clock, Timer } from '../../clock.ts'
import type { CanonicalChain } from '../canonical-chain.ts'
import type { ChainLog, ChainStep } from '../chain-log.ts'
import { maxRecentBlocks } from '../recent-blocks.ts'
import type { ReportedHeight } from '../reported-height.ts'
import type { BlockHeader } from '../upstream-requests.ts'
import type { ChainUpdate, FeedBlock, FeedSource } from './block-feed.ts'

/** What a feed needs of the process that tracks the upstreams. */
export interface FeedSourceOptions {
  readonly clock: Clock
  readonly chain: Pick<CanonicalChain, 'followHead' | 'newestBlock' | 'upstreams'>
  readonly chainLog: ChainLog
  readonly reportedHeight: Pick<ReportedHeight, 'sharedHeight'>
  readonly tracker: {
    /** Polls the upstreams; resolves, and soon, when they have answered. */
    refresh(isCatchUp: true): Promise<void>
    /** The upstreams are polled for another 30 s. */
    recordActivity(): void
  }
}

interface HeaderSourceOptions extends FeedSourceOptions {
  publish(update: ChainUpdate): void
  /** Blocks would be missing. */
  end(): void
}

/** While a feed runs, upstreams are polled, though no calls come in. */
export const activityIntervalMs = 10_000
/** A feed that has no head by then does not start. */
export const startTimeoutMs = 2_000
const startRetryIntervalMs = 100

/** Blocks, with those from before the start, that are known soon: nodes may forget them when a reorg replaces them. */
const minKnownBlocks = 16

const noStep: ChainStep = { removed: [], added: [] }

/** Publishes the steps of the log, from the newest block at the start on. More than `maxRecentBlocks` blocks that cannot be published yet end it. */
export class HeaderSource implements FeedSource {
  readonly #options: HeaderSourceOptions
  /** What is not published yet, as one step. Another object with each change. */
  #unpublished = noStep
  #stopReading: (() => void) | undefined
  #activityTimer: Timer | undefined
  #startCount = 0

  constructor(options: HeaderSourceOptions) {
    this.#options = options
  }

  /** Begins with the newest block of a poll: what an upstream reported before may be old, as it is polled only while calls come in. */
  async start(onStarted: () => void): Promise<boolean> {
    const { clock, chain, chainLog, tracker } = this.#options
    const start = (this.#startCount += 1)
    const headsReceived = () => chain.upstreams.reduce((sum, upstream) => sum + upstream.headsReceived, 0)
    const [receivedBefore, deadline] = [headsReceived(), clock.monotonic() + startTimeoutMs]
    this.#activityTimer = clock.every(activityIntervalMs, () => tracker.recordActivity())
    for (;;) {
      await tracker.refresh(true)
      tracker.recordActivity()
      await chain.followHead()
      if (start !== this.#startCount) return false
      const [{ newestBlock }, { newest }] = [chain, chainLog]
      // A height that an upstream has answered to a caller is no event for those who come later.
      const isNewest = newestBlock?.number === chain.upstreams[0]?.height
      const isFollowed = newestBlock !== undefined && newest !== undefined && newest.number >= newestBlock.number
      if (isFollowed && isNewest && headsReceived() > receivedBefore) {
        this.#stopReading = chainLog.read({ onStep: step => this.#handleStep(step), onGap: () => this.#options.end() })
        void chainLog.extendDownTo(newest.number - minKnownBlocks + 1, chain.upstreams)
        onStarted()
        return true
      }
      if (clock.monotonic() >= deadline) return false
      await sleep(clock, startRetryIntervalMs)
    }
  }

  stop(): void {
    this.#startCount += 1
    this.#activityTimer?.cancel()
    this.#stopReading?.()
    this.#stopReading = undefined
    this.#unpublished = noStep
  }

  async sync(onSynced: () => void): Promise<void> {
    await this.#sync()
    onSynced()
  }

  readonly #sync = nextFlight(async () => {
    await this.#options.tracker.refresh(true)
    await this.#options.chain.followHead()
    await this.advance()
  })

  /** Publishes what the log has got. Every worker has the height first: no caller who has seen a block gets an older answer. */
  readonly advance = nextFlight(async () => {
    while (this.#unpublished !== noStep) {
      const step = this.#unpublished
      await this.#options.reportedHeight.sharedHeight
      if (step !== this.#unpublished) continue
      this.#unpublished = noStep
      this.#options.publish({ removed: step.removed, added: step.added.map(toFeedBlock) })
    }
  })

  #handleStep(step: ChainStep): void {
    const merged = mergeSteps(this.#unpublished, step)
    this.#unpublished = merged.removed.length + merged.added.length === 0 ? noStep : merged
    if (merged.added.length > maxRecentBlocks) this.#options.end()
  }
}

/** One step that has the effect of both: a block that the older one adds and the newer one removes is in neither list. */
const mergeSteps = (older: ChainStep, newer: ChainStep): ChainStep => {
  const keptCount = Math.max(0, older.added.length - newer.removed.length)
  return {
    removed: [...older.removed, ...newer.removed.slice(older.added.length)],
    added: [...older.added.slice(0, keptCount), ...newer.added],
  }
}

const toFeedBlock = ({ number, hash, parentHash, header, timestampMs }: BlockHeader): FeedBlock => ({
  number,
  hash,
  parentHash,
  json: header,
  ...(timestampMs !== undefined && { timestampMs }),
})
