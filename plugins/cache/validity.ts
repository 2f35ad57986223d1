import { isFailure, isJsonNull } from '../../src/plugin/plugin.ts'
import type { CachePolicy, ChainSnapshot, Failure, Reply, Result, Services } from '../../src/plugin/plugin.ts'
import { isFinal, minedBlockOf } from './finality.ts'
import type { CacheQuery } from './finality.ts'

/** A request that a node must answer, and what was known before the node was requested. */
export interface CacheMiss extends CacheQuery {
  readonly snapshot: ChainSnapshot
  readonly transactionVersion: number
  /** On the monotonic clock. */
  readonly requestedAt: number
}

/** How long a reply is valid: while the chain has these versions, of its finalized blocks, of its head, or of what callers have sent, and for `ttlMs`. */
export interface Validity {
  readonly finalityVersion?: number
  readonly headVersion?: number
  readonly transactionVersion?: number | undefined
  readonly ttlMs?: number
}

type ValidityServices = Pick<Services, 'clock' | 'heads' | 'methods' | 'network'>

/** Decides how long replies are valid. */
export class ReplyValidity {
  readonly #services: ValidityServices
  readonly #tooManyTtlMs: number
  /**
   * Of an answer that may change with the next block. Not extended while polls confirm the head: the answer does not say which block it is
   * from, and may be older than what the same URL answers a poll.
   */
  readonly #latestTtlMs: number
  /**
   * Blocks come faster than polls, as on a development node that mines on demand: a transaction may be mined before the
   * sender's next call, before the gateway polls its block.
   */
  readonly #outpacesPolls: boolean

  constructor(services: ValidityServices, tooManyTtlMs: number) {
    const { network, heads } = services
    this.#services = services
    this.#tooManyTtlMs = tooManyTtlMs
    this.#latestTtlMs = Math.min(network.blockTime, heads.pollIntervalMs)
    this.#outpacesPolls = network.blockTime < heads.pollIntervalMs
  }

  /** Undefined when the reply is not valid for later callers. */
  of(miss: CacheMiss, reply: Reply): Validity | undefined {
    const { snapshot, transactionVersion, requestedAt } = miss
    const { heads, clock, methods } = this.#services
    const { finalityVersion, headVersion } = heads.snapshot
    const isFinalityKnown = finalityVersion === snapshot.finalityVersion
    // From Redis, which holds final answers only.
    if (reply.source === 'cache') return isFinalityKnown ? { finalityVersion } : undefined
    if (isFailure(reply)) return isTooLargeQuery(reply) && this.#tooManyTtlMs > 0 ? { ttlMs: this.#tooManyTtlMs } : undefined
    if (isFinalityKnown && isFinal(miss, reply, snapshot, methods)) return { finalityVersion }
    if (headVersion !== snapshot.headVersion || !snapshot.isCurrent(reply.upstream)) return undefined
    const ttlMs = this.#latestTtlMs - (clock.monotonic() - requestedAt)
    return ttlMs > 0 ? { headVersion, transactionVersion: this.#outpacesPolls ? transactionVersion : undefined, ttlMs } : undefined
  }

  /** Only final replies are valid in a process that is not `isInStep` with the height that callers were given. */
  includes({ finalityVersion, headVersion, transactionVersion }: Validity, snapshot: ChainSnapshot, isInStep: boolean): boolean {
    if (finalityVersion !== undefined && finalityVersion !== snapshot.finalityVersion) return false
    if (headVersion !== undefined && !(headVersion === snapshot.headVersion && isInStep)) return false
    return transactionVersion === undefined || transactionVersion === this.#services.heads.transactionVersion
  }
}

const isTooLargeQuery = ({ kind, category }: Failure): boolean => kind === 'tooMany' || category === 'rangeTooWide'

/** Whether such results are cached: null, and what is not mined, may be another with the next call. */
export const isCacheable = (policy: CachePolicy, { result, unexpectedType }: Result): boolean => {
  if (unexpectedType === true || isJsonNull(result)) return false
  return policy !== 'mined' || minedBlockOf(result) !== undefined
}
