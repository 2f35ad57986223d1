/** What a check has found in one answer. */
export interface Finding {
  /** The same text for what holds on a chain together: a check, and the shape of what it was made on. */
  readonly rule: string
  readonly holds: boolean
  /** The number of the block that the answer is about; undefined where it has none. */
  readonly block: number | undefined
  /** Where the rule is known to hold. On all other chains it refuses nothing before it has held for an answer. */
  readonly knownFor: 'every chain' | 'Ethereum' | 'no chain'
  /** False where the rule would hold by accident: an empty list tells nothing about the chain. */
  readonly isEvidence: boolean
  /** What no root covers and follows from the rest: of a proven answer, it is right, or the chain has another rule. */
  readonly isDerived?: boolean
}

/** What is to be done with an answer. `unknown`: the chain may be one on which the rule does not hold. */
type Decision = 'pass' | 'refuse' | 'unknown'

interface Failures {
  readonly upstreams: Set<string>
  count: number
}

/** One node that breaks a rule so often in a row, and no node that keeps it: the rule is none of the chain. */
const maxFailuresInRow = 20

/** The shapes of answers are the nodes' to choose. */
const maxRules = 256

/**
 * The rules that hold on a chain, as seen from its answers. Chains differ in how they hash headers, number logs and fill blooms, and
 * no list of them is complete: a rule may refuse an answer only where it has held for an answer about that block or an earlier one, so that
 * no right answer is refused because of the chain. It is given up when two nodes break it and none keeps it meanwhile: the chain has changed.
 */
export class ChainRules {
  readonly #isEthereum: boolean
  readonly #onGivenUp: (rule: string) => void
  /** The first block that each rule has held for. */
  readonly #heldSince = new Map<string, number>()
  readonly #failures = new Map<string, Failures>()
  readonly #givenUp = new Set<string>()
  readonly #brokenBy = new Map<string, Set<string>>()

  constructor(isEthereum: boolean, onGivenUp: (rule: string) => void) {
    this.#isEthereum = isEthereum
    this.#onGivenUp = onGivenUp
  }

  decide(finding: Finding, upstream: string): Decision {
    const { rule, holds } = finding
    if (holds) {
      this.#recordHeld(finding)
      return 'pass'
    }
    if (this.isKnown(finding)) return 'refuse'
    if (!this.#hasHeld(finding)) return 'unknown'
    return this.#recordFailure(rule, upstream) ? 'unknown' : 'refuse'
  }

  /**
   * Of a rule that has held for no answer yet: whether so many upstreams break it that it is none of the chain. One alone could lie from the start, so that the
   * rule would never hold.
   */
  isBrokenByEnough({ rule }: Finding, upstream: string, required: number): boolean {
    const upstreams = this.#brokenBy.get(rule) ?? new Set()
    if (upstreams.size === 0 && this.#brokenBy.size >= maxRules) return true
    this.#brokenBy.set(rule, upstreams.add(upstream))
    return upstreams.size >= required
  }

  /** Whether all rules are known to hold: the chain is one of Ethereum. */
  get areAllKnown(): boolean {
    return this.#isEthereum
  }

  /** Whether the rule of the finding is one of this chain, whatever its answers show. */
  isKnown({ knownFor }: Finding): boolean {
    return knownFor === 'every chain' || (knownFor === 'Ethereum' && this.#isEthereum)
  }

  #hasHeld({ rule, block = Infinity }: Finding): boolean {
    const heldSince = this.#heldSince.get(rule)
    return heldSince !== undefined && block >= heldSince && !this.#givenUp.has(rule)
  }

  #recordHeld({ rule, block, isEvidence }: Finding): void {
    this.#failures.delete(rule)
    if (!isEvidence || block === undefined) return
    const heldSince = this.#heldSince.get(rule)
    if (heldSince === undefined ? this.#heldSince.size < maxRules : block < heldSince) this.#heldSince.set(rule, block)
  }

  /** Whether the rule is given up. */
  #recordFailure(rule: string, upstream: string): boolean {
    const failures = this.#failures.get(rule) ?? { upstreams: new Set(), count: 0 }
    this.#failures.set(rule, failures)
    failures.upstreams.add(upstream)
    failures.count += 1
    if (failures.upstreams.size === 1 && failures.count < maxFailuresInRow) return false
    this.#givenUp.add(rule)
    this.#onGivenUp(rule)
    return true
  }
}
