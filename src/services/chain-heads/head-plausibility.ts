import { isFailure } from '../../plugin/reply.ts'
import { toHexQuantity } from '../../util/json.ts'
import type { Clock } from '../clock.ts'
import { parseBlockReply } from './upstream-requests.ts'
import type { BlockHeader, UpstreamRequester } from './upstream-requests.ts'

/** A block that an upstream reports: its number and, where known, its timestamp in ms since 1970. */
export interface HeadReport {
  readonly number: number
  readonly timestampMs?: number | undefined
}

/** An upstream that reports heads. */
export interface HeadReporter {
  readonly name: string
  /** Its newest block, by whatever response reported it. */
  readonly head: HeadReport | undefined
  /** The newest block that it has returned as a whole, so with a timestamp. */
  readonly latestBlock: HeadReport | undefined
  readonly ancestorCheckResult?: AncestorCheckResult | undefined
}

interface HeadPlausibilityOptions {
  /** Usual ms between blocks. */
  readonly blockTime: number
  readonly clock: Clock
}

/** Blocks come at most this many times faster than usual. */
const maxSpeedup = 4

/** The clocks of nodes and of this machine may differ by this much: a timestamp further in the future proves nothing. */
const maxClockSkewMs = 600_000

/** Heads may always lie this many blocks apart, and this many times `maxLag`. */
const minSlackBlocks = 8
const slackPerMaxLag = 3

/**
 * Decides which reported heads are plausible. Heights are block numbers, distances are blocks, times are ms.
 *
 * A chain takes time to grow: when one upstream's newest block is a minute old, another upstream cannot be a thousand blocks
 * above it. A head can follow an earlier block when it lies above it by at most the slack, plus `maxSpeedup` times the usual
 * number of blocks for the time between the two.
 *
 * - A head is implausible when more upstreams contradict it than support it. An upstream supports a head when its own head is
 *   higher, or lower by at most the slack. An upstream contradicts a head that cannot follow its newest block.
 * - A head on which two or more upstreams agreed earlier is one more supporter of each head that can follow it.
 * - The head of a single upstream is always plausible. So is a head above blocks that are old, that have no timestamp, or
 *   whose timestamp lies more than `maxClockSkewMs` in the future.
 * - When two upstreams contradict each other, the lower head is taken: a reported height can be raised later, but not taken
 *   back from callers. An upstream that merely lags does not contradict: its newest block is old.
 * - Then an AncestorCheck of both decides: an upstream that fails it cannot contradict an upstream that passes it. An invented
 *   number loses, whether it is high or low.
 */
export class HeadPlausibility {
  readonly #options: HeadPlausibilityOptions
  #slackBlocks = minSlackBlocks
  #lastAccepted: (HeadReport & { readonly names: ReadonlySet<string> }) | undefined

  constructor(options: HeadPlausibilityOptions) {
    this.#options = options
  }

  /** `maxLagBlocks`: the blocks that an upstream may lag. */
  setMaxLag(maxLagBlocks: number): void {
    this.#slackBlocks = Math.max(minSlackBlocks, slackPerMaxLag * maxLagBlocks)
  }

  /** The names of the upstreams whose heads are implausible. */
  findImplausible(reporters: readonly HeadReporter[]): ReadonlySet<string> {
    const implausible = reporters.filter(each => each.head !== undefined && this.#isHeadImplausible(each, each.head, reporters))
    return new Set(implausible.map(({ name }) => name))
  }

  /** Is this new head implausible? `reporters` are the other upstreams, without the `reporter` of the head. */
  isImplausible(report: HeadReport, reporters: readonly HeadReporter[], reporter?: HeadReporter): boolean {
    let [contradictions, support] = [0, this.#earlierSupport(report)]
    const hasPassedCheck = reporter !== undefined && this.#hasPassedCheck(reporter)
    for (const { head, latestBlock, ancestorCheckResult } of reporters) {
      if (head !== undefined && head.number >= report.number - this.#slackBlocks) support += 1
      else if (hasPassedCheck && ancestorCheckResult?.isConsistent === false) continue
      else if (latestBlock !== undefined && !this.#canFollow(report, latestBlock)) contradictions += 1
    }
    return contradictions > support
  }

  /** Does the older block's age fit its distance from the newer block, neither too young nor too old? */
  isAgePlausible({ number, timestampMs }: HeadReport, older: HeadReport): boolean {
    if (timestampMs === undefined || older.timestampMs === undefined) return false
    const [blocks, expectedBlocks] = [number - older.number, (timestampMs - older.timestampMs) / this.#options.blockTime]
    return blocks > 0 && blocks <= minSlackBlocks + maxSpeedup * expectedBlocks && expectedBlocks <= minSlackBlocks + maxSpeedup * blocks
  }

  /** Records the network's head, with the upstreams that have agreed on it or on an earlier head that it can follow. */
  recordAccepted(head: HeadReport, reporters: readonly HeadReporter[]): void {
    const lowest = head.number - this.#slackBlocks
    const names = reporters.filter(each => each.head !== undefined && each.head.number >= lowest).map(({ name }) => name)
    const earlierNames = this.#lastAccepted !== undefined && this.#canFollow(head, this.#lastAccepted) ? this.#lastAccepted.names : []
    this.#lastAccepted = {
      number: head.number,
      timestampMs: head.timestampMs ?? this.#options.clock.now(),
      names: new Set([...earlierNames, ...names]),
    }
  }

  #isHeadImplausible(reporter: HeadReporter, head: HeadReport, reporters: readonly HeadReporter[]): boolean {
    return this.isImplausible(
      head,
      reporters.filter(({ name }) => name !== reporter.name),
      reporter,
    )
  }

  /** The current head must still follow from the block that was checked. */
  #hasPassedCheck({ head, ancestorCheckResult }: HeadReporter): boolean {
    return (
      head !== undefined &&
      ancestorCheckResult?.isConsistent === true &&
      head.number >= ancestorCheckResult.number - this.#slackBlocks &&
      this.#canFollow(head, ancestorCheckResult)
    )
  }

  /** A head that only one upstream ever reported supports nothing: that upstream may be the implausible one. */
  #earlierSupport(report: HeadReport): 0 | 1 {
    return this.#lastAccepted !== undefined && this.#lastAccepted.names.size > 1 && this.#canFollow(report, this.#lastAccepted) ? 1 : 0
  }

  #canFollow({ number, timestampMs }: HeadReport, earlier: HeadReport): boolean {
    const { blockTime, clock } = this.#options
    const now = clock.now()
    if (earlier.timestampMs === undefined || earlier.timestampMs > now + maxClockSkewMs) return true
    const elapsedMs = Math.max(0, Math.min(timestampMs ?? now, now) - earlier.timestampMs)
    return number - earlier.number <= this.#slackBlocks + (maxSpeedup * elapsedMs) / blockTime
  }
}

/** The block whose ancestor was requested, and whether the upstream has a consistent one. */
export interface AncestorCheckResult extends HeadReport {
  readonly isConsistent: boolean
}

interface AncestorCheckOptions {
  readonly clock: Clock
  /** ms between requests. */
  readonly intervalMs: number
  readonly request: UpstreamRequester
  isAgePlausible(newer: HeadReport, older: HeadReport): boolean
}

/** The ancestor that is requested lies this many blocks below the newest block. */
const ancestorDepthBlocks = 64

/** Has an upstream the blocks that must precede its newest block? Checked only while some head is implausible. */
export class AncestorCheck {
  readonly #options: AncestorCheckOptions
  #result: AncestorCheckResult | undefined
  #dueAt = 0

  constructor(options: AncestorCheckOptions) {
    this.#options = options
  }

  /** Undefined before the first response. */
  get result(): AncestorCheckResult | undefined {
    return this.#result
  }

  /** Requests an ancestor of the block when a check is due. A failure leaves the result as it is. */
  async check({ number, timestampMs }: BlockHeader): Promise<void> {
    const { clock, intervalMs, request, isAgePlausible } = this.#options
    if (clock.monotonic() < this.#dueAt) return
    this.#dueAt = clock.monotonic() + intervalMs
    const ancestorNumber = Math.max(0, number - ancestorDepthBlocks)
    const reply = await request('eth_getBlockByNumber', toHexQuantity(ancestorNumber), false)
    if (isFailure(reply) && reply.fault !== 'caller') return void (this.#dueAt = 0)
    const older = parseBlockReply(reply)
    const isConsistent = older?.number === ancestorNumber && isAgePlausible({ number, timestampMs }, older)
    this.#result = { number, timestampMs, isConsistent }
  }
}
