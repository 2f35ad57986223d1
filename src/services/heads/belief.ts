import type { Clock } from '../clock.ts'

/** A block that is said to be there, and when it was made, as far as it is known: ms since 1970. */
export interface Claim {
  readonly number: number
  readonly time?: number | undefined
}

/** Somebody who tells of blocks. */
export interface Witness {
  readonly name: string
  /** The newest that it tells of. */
  readonly head: Claim | undefined
  /** The newest that it showed, with its time. */
  readonly shown: Claim | undefined
  /** Of which block it was asked for an earlier one, and whether it had one of an age that fits. */
  readonly proof?: Proof | undefined
}

export interface Proof extends Claim {
  readonly isGood: boolean
}

export interface BeliefTerms {
  /** Usual time between blocks, in ms. */
  readonly blockTime: number
  readonly clock: Clock
}

/** Blocks come this many times faster than usual at most. */
const haste = 4

/** ms that the clocks of nodes and of this machine may be apart: times further in the future say nothing. */
const drift = 600_000

/** The least slack, in blocks. */
const least = 8

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
export class Belief {
  readonly #terms: BeliefTerms
  #slack = least
  #before: (Claim & { readonly names: ReadonlySet<string> }) | undefined

  constructor(terms: BeliefTerms) {
    this.#terms = terms
  }

  /** Heads may lie so many blocks apart without any reason. */
  allow(blocks: number): void {
    this.#slack = Math.max(least, blocks)
  }

  /** Names of those whose heads are doubted. */
  sift(witnesses: readonly Witness[]): ReadonlySet<string> {
    const doubted = witnesses.filter(each => each.head !== undefined && this.#isDoubtedOf(each, each.head, witnesses))
    return new Set(doubted.map(({ name }) => name))
  }

  /** Can nobody have told of this block just now? `teller`, who did, is none of the other witnesses. */
  isDoubted(claim: Claim, witnesses: readonly Witness[], teller?: Witness): boolean {
    let [against, support] = [0, 0]
    const isProved = teller !== undefined && this.#isProved(teller)
    for (const { head, shown, proof } of witnesses) {
      if (head !== undefined && head.number >= claim.number - this.#slack) support += 1
      else if (isProved && proof?.isGood === false) continue
      else if (shown !== undefined && !this.#mayFollow(claim, shown)) against += 1
    }
    return against > support + this.#memory(claim)
  }

  /** Is the older block of an age that fits the newer one, neither too young nor too old? */
  fits({ number, time }: Claim, older: Claim): boolean {
    if (time === undefined || older.time === undefined) return false
    const [blocks, usual] = [number - older.number, (time - older.time) / this.#terms.blockTime]
    return blocks > 0 && blocks <= least + haste * usual && usual <= least + haste * blocks
  }

  /** The head that is believed now, and all who have told of it or nearly so. */
  remember(head: Claim, witnesses: readonly Witness[]): void {
    const lowest = head.number - this.#slack
    const names = witnesses.filter(each => each.head !== undefined && each.head.number >= lowest).map(({ name }) => name)
    const before = this.#before !== undefined && this.#mayFollow(head, this.#before) ? this.#before.names : []
    this.#before = { number: head.number, time: head.time ?? this.#terms.clock.now(), names: new Set([...before, ...names]) }
  }

  #isDoubtedOf(teller: Witness, head: Claim, witnesses: readonly Witness[]): boolean {
    return this.isDoubted(
      head,
      witnesses.filter(({ name }) => name !== teller.name),
      teller,
    )
  }

  /** What it tells now must still follow from what it proved. */
  #isProved({ head, proof }: Witness): boolean {
    return head !== undefined && proof?.isGood === true && head.number >= proof.number - this.#slack && this.#mayFollow(head, proof)
  }

  /** What only one has ever told counts for nothing: it may be that one who is doubted now. */
  #memory(claim: Claim): 0 | 1 {
    return this.#before !== undefined && this.#before.names.size > 1 && this.#mayFollow(claim, this.#before) ? 1 : 0
  }

  #mayFollow({ number, time }: Claim, earlier: Claim): boolean {
    const { blockTime, clock } = this.#terms
    const now = clock.now()
    if (earlier.time === undefined || earlier.time > now + drift) return true
    const passed = Math.max(0, Math.min(time ?? now, now) - earlier.time)
    return number - earlier.number <= this.#slack + (haste * passed) / blockTime
  }
}
