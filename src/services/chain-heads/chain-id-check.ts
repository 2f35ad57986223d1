import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import { parseQuantityReply } from './block-header.ts'

export interface ChainIdCheckOptions {
  readonly chainId: number
  readonly clock: Clock
  /** ms between questions. */
  readonly intervalMs: number
  /** Asks eth_chainId. */
  request(): Promise<Reply>
}

/** In ms, at most, until a node of another chain is asked again: it does nothing else until somebody has mended it. */
const maxWrongChainIntervalMs = 10_000

/** Which chain a node is on: asked at first, after a connection came back, and now and then: it may restart unnoticed. */
export class ChainIdCheck {
  readonly #options: ChainIdCheckOptions
  #upstreamChainId: number | undefined
  #isCurrent = false
  #pending: Promise<void> | undefined
  #dueAt = 0

  constructor(options: ChainIdCheckOptions) {
    this.#options = options
  }

  /** The id that it gave; undefined as long as it did not. */
  get upstreamChainId(): number | undefined {
    return this.#upstreamChainId
  }

  /** Has it been proved to be on our chain? */
  get isExpectedChain(): boolean {
    return this.#upstreamChainId === this.#options.chainId
  }

  /** Is it on another chain than ours? */
  get isWrongChain(): boolean {
    return this.#upstreamChainId !== undefined && !this.isExpectedChain
  }

  /** Another node may be there by now: it is asked again at the next check. */
  invalidate(): void {
    this.#isCurrent = false
  }

  /** Asks, where there is reason to. Whoever checks meanwhile waits for the same answer. */
  check(): Promise<void> {
    this.#pending ??= this.#check().finally(() => {
      this.#pending = undefined
    })
    return this.#pending
  }

  async #check(): Promise<void> {
    const { clock, intervalMs, request } = this.#options
    const now = clock.monotonic()
    if (this.#isCurrent && now < this.#dueAt) return
    this.#isCurrent = true
    const reply = await request()
    if (isFailure(reply) && reply.fault !== 'caller') return this.invalidate()
    const chainId = parseQuantityReply(reply)
    // Whoever was on another chain is there until it names ours: an error, a limit say, is no word on that.
    if (chainId !== undefined || !this.isWrongChain) this.#upstreamChainId = chainId
    this.#dueAt = now + (this.isWrongChain ? Math.min(maxWrongChainIntervalMs, intervalMs) : intervalMs)
  }
}
