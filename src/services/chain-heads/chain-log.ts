import { boundedCache } from '../../util/bounded-cache.ts'
import { HedgedSources } from '../../util/hedged-sources.ts'
import type { Clock } from '../clock.ts'
import { maxRecentBlocks } from './recent-blocks.ts'
import type { BlockId, LinkedBlock, RecentBlocks } from './recent-blocks.ts'
import type { BlockHeader } from './upstream-requests.ts'

/** A change of the chain: these blocks are removed, the newest first; then these are appended, the oldest first. */
export interface ChainStep {
  readonly removed: readonly LinkedBlock[]
  readonly added: readonly BlockHeader[]
}

/** Gets each step of the log from when it was opened on. */
interface ChainReader {
  onStep(step: ChainStep): void
  /** The next step would leave blocks out. */
  onGap(): void
}

/** An upstream that returns blocks by their hash. */
interface BlockSource {
  readonly name: string
  fetchBlock(hash: string): Promise<BlockHeader | undefined>
}

/**
 * What a new head has done to the log. `restarted`: no fork point was found, so the log begins again with the new head. `none`: the log is as
 * it was, and says nothing of the head. `depth`: removed blocks.
 */
export type ChainAdvance = { readonly kind: 'extended' | 'restarted' | 'none' } | { readonly kind: 'reorg'; readonly depth: number }

/** Ancestors of a new head that are fetched, at most, while nobody reads the log. */
const maxFetchedAncestors = 64

/** Headers of 2 KB each. */
const maxHeaders = 512

interface ChainLogOptions {
  readonly clock: Clock
  /** Empty; changed by the log alone. */
  readonly recentBlocks: RecentBlocks
  /** Callers know blocks up to this number. */
  reportedHeight(): number
}

/**
 * The blocks of the network up to its head, followed block by block: the one place where blocks are fetched by their parents' hashes. Finality,
 * the recent blocks of all processes, and the feeds read it.
 *
 * - A head on another branch first removes the blocks that the branch does not have.
 * - A lower head means that an upstream is behind, or has taken over from another. It removes blocks only when the reported height has gone
 *   back, so that no upstream has them any more.
 * - While an ancestor of the head cannot be fetched, nothing changes for readers. The next head tries again.
 * - A head on a branch that leaves the chain below all blocks of the log: the older blocks of both branches are fetched.
 * - Where too many blocks are missing, or the begin of a branch cannot be found, the log begins again with the head, and readers have a gap.
 */
export class ChainLog {
  readonly #options: ChainLogOptions
  readonly #sources: HedgedSources
  readonly #headers = boundedCache<BlockHeader>(maxHeaders)
  readonly #readers = new Set<ChainReader>()

  constructor(options: ChainLogOptions) {
    this.#options = options
    this.#sources = new HedgedSources(options.clock)
  }

  get #recentBlocks(): RecentBlocks {
    return this.#options.recentBlocks
  }

  get newest(): BlockId | undefined {
    const { highestNumber } = this.#recentBlocks
    const hash = this.#recentBlocks.hashAt(highestNumber)
    return hash === undefined ? undefined : { number: highestNumber, hash }
  }

  /** Returns what ends it. */
  read(reader: ChainReader): () => void {
    this.#readers.add(reader)
    return () => void this.#readers.delete(reader)
  }

  /** Makes the block the newest one. Its ancestors come from the first of the upstreams that returns them. */
  async advanceTo(head: BlockHeader, upstreams: readonly BlockSource[]): Promise<ChainAdvance> {
    const recent = this.#recentBlocks
    const maxBranch = this.#readers.size > 0 ? maxRecentBlocks : maxFetchedAncestors
    if (recent.highestNumber < 0 || head.number > recent.highestNumber + maxBranch) return this.#restart(head)
    if (head.number < recent.highestNumber && this.#options.reportedHeight() >= recent.highestNumber)
      return { kind: recent.has(head) ? 'extended' : 'none' }
    if (recent.has(head)) return this.#replaceAbove(head.number, [])
    const branch = [head]
    for (let [oldest] = branch; oldest !== undefined && !this.#isConnected(oldest); [oldest] = branch) {
      const lowest = Math.max(oldest.number - 1, recent.highestNumber - maxBranch)
      if (branch.length >= maxBranch || !(await this.extendDownTo(lowest, upstreams))) return this.#restart(head)
      if (this.#isConnected(oldest)) break
      const parent = await this.#fetch(oldest.parentHash, upstreams)
      if (parent?.number !== oldest.number - 1) return this.#readers.size > 0 ? { kind: 'none' } : this.#restart(head)
      branch.unshift(parent)
    }
    return this.#replaceAbove(head.number - branch.length, branch)
  }

  /** Adds older blocks, down to this number. False when no upstream returns them, or they would be too many. */
  async extendDownTo(number: number, upstreams: readonly BlockSource[]): Promise<boolean> {
    const recent = this.#recentBlocks
    while (recent.lowestNumber > Math.max(0, number)) {
      const lowestHash = recent.hashAt(recent.lowestNumber)
      const lowest = lowestHash === undefined || recent.isFull ? undefined : await this.#fetch(lowestHash, upstreams)
      if (lowest === undefined) return false
      // Another call may have added the same block meanwhile.
      if (!recent.prependParentOf(lowest) && recent.hashAt(recent.lowestNumber) === lowestHash) return false
    }
    return true
  }

  /** The block is the first of the chain, or its parent is in the log. */
  #isConnected(block: BlockHeader): boolean {
    return block.number === 0 ? this.#recentBlocks.lowestNumber === 0 : this.#recentBlocks.hasParentOf(block)
  }

  async #fetch(hash: string, upstreams: readonly BlockSource[]): Promise<BlockHeader | undefined> {
    const known = this.#headers.get(hash)
    if (known !== undefined) return known
    const block = await this.#sources.first(upstreams, async upstream => {
      const fetched = await upstream.fetchBlock(hash)
      return fetched?.hash === hash ? fetched : undefined
    })
    if (block !== undefined) this.#headers.set(hash, block)
    return block
  }

  #replaceAbove(forkNumber: number, added: readonly BlockHeader[]): ChainAdvance {
    const removed = this.#recentBlocks.truncateTo(forkNumber)
    this.#recentBlocks.append(added)
    for (const block of added) this.#headers.set(block.hash, block)
    if (removed.length + added.length > 0) for (const reader of this.#readers) reader.onStep({ removed, added })
    return removed.length > 0 ? { kind: 'reorg', depth: removed.length } : { kind: 'extended' }
  }

  #restart(head: BlockHeader): ChainAdvance {
    const isFirst = this.#recentBlocks.highestNumber < 0
    this.#recentBlocks.reset([head])
    this.#headers.set(head.hash, head)
    for (const reader of [...this.#readers]) reader.onGap()
    return { kind: isFirst ? 'extended' : 'restarted' }
  }
}
