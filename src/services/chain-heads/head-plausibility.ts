import type { Clock } from '../clock.ts'

/** A block that is said to be there, and when it was made, as far as it is known: ms since 1970. */
export interface HeadReport {
  readonly number: number
  readonly timestampMs?: number | undefined
}

/** Somebody who tells of blocks. */
export interface HeadReporter {
  readonly name: string
  /** The newest that it tells of. */
  readonly head: HeadReport | undefined
  /** The newest that it showed, with its time. */
  readonly latestBlock: HeadReport | undefined
  /** Of which block it was asked for an earlier one, and whether it had one of an age that fits. */
  readonly ancestorCheckResult?: AncestorCheckResult | undefined
}

export interface AncestorCheckResult extends HeadReport {
  readonly isConsistent: boolean
}

export interface HeadPlausibilityOptions {
  /** Usual time between blocks, in ms. */
  readonly blockTime: number
  readonly clock: Clock
}

/** Blocks come this many times faster than usual at most. */
const maxSpeedup = 4

/** ms that the clocks of nodes and of this machine may be apart: times further in the future say nothing. */
const maxClockSkewMs = 600_000

/** The least slack, in blocks. */
const minSlackBlocks = 8

/**
 * What can be believed of heights. A chain takes time to grow: when a node shows a block of a minute ago, none can be a
 * thousand blocks ahead of it. A height is doubted when more witnesses speak against it than for it; what two of them
 * have agreed on before is one more for all that can have followed from it. One witness alone is always believed, as is
 * whoever is high only compared to blocks that are old themselves or do not tell their time.
 *
 * Of two who have nothing in common the lower is believed first: a height can still be raised, but not be taken back from
 * callers. A node that is only behind is not meant: its newest block is old. Then both are asked for an earlier block, and
 * who has none that fits has no say against who has one: a number that somebody made up loses, high or low.
 */
export class HeadPlausibility {
  readonly #options: HeadPlausibilityOptions
  #slackBlocks = minSlackBlocks
  #lastAccepted: (HeadReport & { readonly names: ReadonlySet<string> }) | undefined

  constructor(options: HeadPlausibilityOptions) {
    this.#options = options
  }

  /** Heads may lie so many blocks apart without any reason. */
  setSlack(blocks: number): void {
    this.#slackBlocks = Math.max(minSlackBlocks, blocks)
  }

  /** Names of those whose heads are doubted. */
  findImplausible(reporters: readonly HeadReporter[]): ReadonlySet<string> {
    const implausible = reporters.filter(each => each.head !== undefined && this.#isHeadImplausible(each, each.head, reporters))
    return new Set(implausible.map(({ name }) => name))
  }

  /** Can nobody have told of this block just now? `teller`, who did, is none of the other witnesses. */
  isImplausible(report: HeadReport, reporters: readonly HeadReporter[], reporter?: HeadReporter): boolean {
    let [against, support] = [0, 0]
    const hasPassedCheck = reporter !== undefined && this.#hasPassedCheck(reporter)
    for (const { head, latestBlock, ancestorCheckResult } of reporters) {
      if (head !== undefined && head.number >= report.number - this.#slackBlocks) support += 1
      else if (hasPassedCheck && ancestorCheckResult?.isConsistent === false) continue
      else if (latestBlock !== undefined && !this.#mayFollow(report, latestBlock)) against += 1
    }
    return against > support + this.#earlierSupport(report)
  }

  /** Is the older block of an age that fits the newer one, neither too young nor too old? */
  isAgePlausible({ number, timestampMs }: HeadReport, older: HeadReport): boolean {
    if (timestampMs === undefined || older.timestampMs === undefined) return false
    const [blocks, expectedBlocks] = [number - older.number, (timestampMs - older.timestampMs) / this.#options.blockTime]
    return blocks > 0 && blocks <= minSlackBlocks + maxSpeedup * expectedBlocks && expectedBlocks <= minSlackBlocks + maxSpeedup * blocks
  }

  /** The head that is believed now, and all who have told of it or nearly so. */
  recordAccepted(head: HeadReport, reporters: readonly HeadReporter[]): void {
    const lowest = head.number - this.#slackBlocks
    const names = reporters.filter(each => each.head !== undefined && each.head.number >= lowest).map(({ name }) => name)
    const earlierNames = this.#lastAccepted !== undefined && this.#mayFollow(head, this.#lastAccepted) ? this.#lastAccepted.names : []
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

  /** What it tells now must still follow from what it proved. */
  #hasPassedCheck({ head, ancestorCheckResult }: HeadReporter): boolean {
    return (
      head !== undefined &&
      ancestorCheckResult?.isConsistent === true &&
      head.number >= ancestorCheckResult.number - this.#slackBlocks &&
      this.#mayFollow(head, ancestorCheckResult)
    )
  }

  /** What only one has ever told counts for nothing: it may be that one who is doubted now. */
  #earlierSupport(report: HeadReport): 0 | 1 {
    return this.#lastAccepted !== undefined && this.#lastAccepted.names.size > 1 && this.#mayFollow(report, this.#lastAccepted) ? 1 : 0
  }

  #mayFollow({ number, timestampMs }: HeadReport, earlier: HeadReport): boolean {
    const { blockTime, clock } = this.#options
    const now = clock.now()
    if (earlier.timestampMs === undefined || earlier.timestampMs > now + maxClockSkewMs) return true
    const elapsedMs = Math.max(0, Math.min(timestampMs ?? now, now) - earlier.timestampMs)
    return number - earlier.number <= this.#slackBlocks + (maxSpeedup * elapsedMs) / blockTime
  }
}
