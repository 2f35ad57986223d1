import { isFailure } from '../../reply.ts'
import type { Reply } from '../../reply.ts'
import type { Clock } from '../clock.ts'
import type { Claim, Proof } from './belief.ts'
import { readBlock } from './block.ts'
import type { Block } from './block.ts'

export interface PastTerms {
  readonly clock: Clock
  /** ms between questions. */
  readonly rarely: number
  /** Is the older block of an age that fits the newer one? */
  fits(newer: Claim, older: Claim): boolean
  /** Asks for a block by its number. */
  ask(number: string): Promise<Reply>
}

/** So many blocks before its newest a node must know one that fits. */
const depth = 64

/** Has a node the blocks that must have come before its newest one? Asked for only where that is in doubt. */
export class Past {
  readonly #terms: PastTerms
  #proof: Proof | undefined
  #due = 0

  constructor(terms: PastTerms) {
    this.#terms = terms
  }

  get proof(): Proof | undefined {
    return this.#proof
  }

  /** Asks, when that is due. A node that does not answer has shown neither. */
  async check(block: Block): Promise<void> {
    const { clock, rarely, fits, ask } = this.#terms
    const { number, time } = block
    if (clock.monotonic() < this.#due) return
    this.#due = clock.monotonic() + rarely
    const at = Math.max(0, number - depth)
    const reply = await ask(`0x${at.toString(16)}`)
    if (isFailure(reply) && reply.fault !== 'caller') return void (this.#due = 0)
    const older = readBlock(reply)
    this.#proof = { number, time, isGood: older?.number === at && fits(block, older) }
  }
}
