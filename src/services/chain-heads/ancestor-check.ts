import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import type { HeadReport, AncestorCheckResult } from './head-plausibility.ts'
import { parseBlockReply } from './block-header.ts'
import type { BlockHeader } from './block-header.ts'

export interface AncestorCheckOptions {
  readonly clock: Clock
  /** ms between questions. */
  readonly intervalMs: number
  /** Is the older block of an age that fits the newer one? */
  isAgePlausible(newer: HeadReport, older: HeadReport): boolean
  /** Asks for a block by its number. */
  requestBlock(number: string): Promise<Reply>
}

/** So many blocks before its newest a node must know one that fits. */
const ancestorDepthBlocks = 64

/** Has a node the blocks that must have come before its newest one? Asked for only where that is in doubt. */
export class AncestorCheck {
  readonly #options: AncestorCheckOptions
  #result: AncestorCheckResult | undefined
  #dueAt = 0

  constructor(options: AncestorCheckOptions) {
    this.#options = options
  }

  get result(): AncestorCheckResult | undefined {
    return this.#result
  }

  /** Asks, when that is due. A node that does not answer has shown neither. */
  async check(block: BlockHeader): Promise<void> {
    const { clock, intervalMs, isAgePlausible, requestBlock } = this.#options
    const { number, timestampMs } = block
    if (clock.monotonic() < this.#dueAt) return
    this.#dueAt = clock.monotonic() + intervalMs
    const ancestorNumber = Math.max(0, number - ancestorDepthBlocks)
    const reply = await requestBlock(`0x${ancestorNumber.toString(16)}`)
    if (isFailure(reply) && reply.fault !== 'caller') return void (this.#dueAt = 0)
    const older = parseBlockReply(reply)
    this.#result = { number, timestampMs, isConsistent: older?.number === ancestorNumber && isAgePlausible(block, older) }
  }
}
