import { isFailure } from '../../plugin/reply.ts'
import type { Reply } from '../../plugin/reply.ts'
import { singleFlight } from '../../util/async.ts'
import type { Clock } from '../clock.ts'
import { parseQuantityReply } from './upstream-requests.ts'

export interface ChainIdCheckOptions {
  /** The chain ID of the network. */
  readonly chainId: number
  readonly clock: Clock
  /** ms between requests. */
  readonly intervalMs: number
  /** Sends eth_chainId. */
  request(): Promise<Reply>
}

/** An upstream on the wrong chain serves no calls until an operator corrects it, so it is checked at least this often. */
const maxWrongChainIntervalMs = 10_000

/**
 * Checks that an upstream is on the network's chain: before its first use, after a lost connection, and at an interval,
 * because an upstream may be replaced without a trace.
 */
export class ChainIdCheck {
  readonly #options: ChainIdCheckOptions
  #upstreamChainId: number | undefined
  #isCurrent = false
  #dueAt = 0

  constructor(options: ChainIdCheckOptions) {
    this.#options = options
  }

  /** The chain ID that the upstream returned; undefined before it returned one. */
  get upstreamChainId(): number | undefined {
    return this.#upstreamChainId
  }

  /** Has the upstream returned the expected chain ID? */
  get isExpectedChain(): boolean {
    return this.#upstreamChainId === this.#options.chainId
  }

  /** Has the upstream returned the ID of another chain? */
  get isWrongChain(): boolean {
    return this.#upstreamChainId !== undefined && !this.isExpectedChain
  }

  /** Has the upstream answered the last request, with whatever? */
  get isAnswered(): boolean {
    return this.#isCurrent
  }

  /** Another node may be at this URL now: the next check sends a request. */
  invalidate(): void {
    this.#isCurrent = false
  }

  /** Sends a request when a check is due. Callers that come meanwhile wait for the same response. */
  readonly check = singleFlight(() => this.#check())

  async #check(): Promise<void> {
    const { clock, intervalMs, request } = this.#options
    const now = clock.monotonic()
    if (this.#isCurrent && now < this.#dueAt) return
    this.#isCurrent = true
    const reply = await request()
    if (isFailure(reply) && reply.fault !== 'caller') return this.invalidate()
    const chainId = parseQuantityReply(reply)
    // An error, such as a rate limit, does not prove that the upstream has left the wrong chain.
    if (chainId !== undefined || !this.isWrongChain) this.#upstreamChainId = chainId
    this.#dueAt = now + (this.isWrongChain ? Math.min(maxWrongChainIntervalMs, intervalMs) : intervalMs)
  }
}
