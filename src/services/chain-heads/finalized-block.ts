import type { Clock } from '../clock.ts'
import { parseBlockReply } from './upstream-requests.ts'
import type { BlockHeader, UpstreamRequester } from './upstream-requests.ts'

interface FinalizedBlockOptions {
  readonly clock: Clock
  /** ms between requests. */
  readonly intervalMs: number
  readonly request: UpstreamRequester
  /** -1 while the upstream has no head. */
  headNumber(): number
}

/** The newest finalized block that one upstream names. */
export class FinalizedBlock {
  readonly #options: FinalizedBlockOptions
  #block: BlockHeader | undefined
  #dueAt = 0
  #discards = 0

  constructor(options: FinalizedBlockOptions) {
    this.#options = options
  }

  get block(): BlockHeader | undefined {
    return this.#block
  }

  /** The block was reverted, or is implausible: it is requested again with the next poll. */
  discard(): void {
    this.#discards += 1
    this.#block = undefined
    this.#dueAt = 0
  }

  /**
   * Requests the block when that is due. True when there is a new one. The block counts only if `isConfirmed` agrees. If finality was
   * reverted during the request, the response may be older than that and is dropped.
   */
  async poll(isConfirmed: (reported: BlockHeader) => Promise<boolean>): Promise<boolean> {
    const { clock, intervalMs, request, headNumber } = this.#options
    const now = clock.monotonic()
    if (now < this.#dueAt) return false
    this.#dueAt = now + intervalMs
    const [previous, discardsBefore] = [this.#block, this.#discards]
    const reported = parseBlockReply(await request('eth_getBlockByNumber', 'finalized', false))
    // A finalized block above the upstream's own head is implausible.
    if (reported === undefined || reported.number > headNumber() || reported.hash === previous?.hash) return false
    const isAgreed = await isConfirmed(reported)
    if (discardsBefore !== this.#discards) return false
    if (isAgreed) this.#block = reported
    else this.discard()
    return isAgreed
  }
}
