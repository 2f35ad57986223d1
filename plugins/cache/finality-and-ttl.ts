import type { CachePolicy, ChainSnapshot, RawJson } from '../../src/plugin/internal.ts'
import { blockSelectorOf, isFailure, isJsonNull, parseHexQuantity, toBuffer } from '../../src/plugin/plugin.ts'
import type { Failure, Reply, Request, Result, Services } from '../../src/plugin/plugin.ts'

/** A request whose answer may be final. */
export interface CacheQuery {
  /** Identifies the request, and whatever else its answer depends on, within the network. */
  readonly key: string
  readonly policy: CachePolicy
  readonly request: Request
}

/** A request that a node must answer, and what was known before the node was requested. */
export interface CacheMiss extends CacheQuery {
  readonly snapshot: ChainSnapshot
  readonly transactionVersion: number
  /** On the monotonic clock. */
  readonly requestedAt: number
}

/** How long a reply is valid: while the chain has these versions, of its finalized blocks, of its head, or of what callers have sent, and not after a time. */
export interface Validity {
  readonly finalityVersion: number | undefined
  readonly headVersion: number | undefined
  readonly transactionVersion: number | undefined
  /** On the monotonic clock. */
  readonly expiresAtMs: number
}

type ValidityServices = Pick<Services, 'clock' | 'heads' | 'methods' | 'network'>

/** How long the error of a query for too much is repeated: clients repeat such a query 4 to 10 times within seconds. */
const tooManyTtlMs = 10_000

/** Decides how long replies are valid. */
export class ReplyValidity {
  readonly #services: ValidityServices
  /**
   * Of an answer that may change with the next block. Not extended while polls confirm the head: the answer does not say which block it is
   * from, and may be older than what the same URL answers a poll.
   */
  readonly #latestTtlMs: number
  /** Blocks come faster than polls: a transaction may be mined before the sender's next call, before the gateway polls its block. */
  readonly #outpacesPolls: boolean

  constructor(services: ValidityServices) {
    const { network, heads } = services
    this.#services = services
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
    if (reply.source === 'cache') return isFinalityKnown ? whileFinal(finalityVersion) : undefined
    if (isFailure(reply)) return isTooLargeQuery(reply) ? until(clock.monotonic() + tooManyTtlMs) : undefined
    if (isFinalityKnown && isFinal(miss, reply, snapshot, methods)) return whileFinal(finalityVersion)
    if (headVersion !== snapshot.headVersion || !snapshot.isCurrent(reply.upstream)) return undefined
    const expiresAtMs = requestedAt + this.#latestTtlMs
    if (clock.monotonic() >= expiresAtMs) return undefined
    return {
      finalityVersion: undefined,
      headVersion,
      transactionVersion: this.#outpacesPolls ? transactionVersion : undefined,
      expiresAtMs,
    }
  }
}

const until = (expiresAtMs: number): Validity => ({
  finalityVersion: undefined,
  headVersion: undefined,
  transactionVersion: undefined,
  expiresAtMs,
})

const whileFinal = (finalityVersion: number): Validity => ({ ...until(Infinity), finalityVersion })

/** A range that is too wide for one node may not be for another, which was not requested, or has failed. A partner's limits end with the outage. */
const isTooLargeQuery = ({ kind, category, retryElsewhere, source }: Failure): boolean =>
  source !== 'partner' && retryElsewhere !== true && (kind === 'tooMany' || category === 'rangeTooWide')

/** Whether such results are cached: null, and what is not mined, may be another with the next call. */
export const isCacheable = (policy: CachePolicy, { result, unexpectedType }: Result): boolean => {
  if (unexpectedType === true || isJsonNull(result)) return false
  return policy !== 'mined' || minedBlockOf(result) !== undefined
}

/** Whether the answer is about a block that was finalized on its node before the node was requested. */
const isFinal = (
  { request, policy }: CacheQuery,
  { result, upstream }: Result,
  snapshot: ChainSnapshot,
  methods: Services['methods'],
): boolean => {
  const block = policy === 'mined' ? minedBlockOf(result) : policy === 'block' ? requestedBlockOf(request, methods) : undefined
  return block !== undefined && snapshot.isFinal(upstream, block)
}

/** Whether an answer to the request can be final at all, while blocks up to this one are finalized. */
export const mayBeFinal = ({ policy, request }: CacheQuery, methods: Services['methods'], finalizedNumber: number): boolean => {
  if (policy !== 'block') return policy === 'mined'
  const block = requestedBlockOf(request, methods)
  return block !== undefined && (typeof block === 'string' || block <= finalizedNumber)
}

/** The number or hash of the newest block that the request names; undefined for a request about the head. */
const requestedBlockOf = ({ method, params }: Request, methods: Services['methods']): number | string | undefined => {
  const blocks = blockSelectorOf(methods.get(method), params)
  if (blocks === undefined) return undefined
  if ('hash' in blocks) return blocks.hash
  const { from, to } = blocks
  return typeof from === 'number' && typeof to === 'number' ? Math.max(from, to) : undefined
}

/** The number of the block of a transaction or receipt. The logs of a receipt, which may come first, have the same number. */
const minedBlockOf = (result: RawJson): number | undefined => {
  const bytes = toBuffer(result)
  const start = bytes.indexOf('"blockNumber"')
  if (start < 0) return undefined
  const [, text] = /^"blockNumber"\s*:\s*"(0x[0-9a-fA-F]+)"/.exec(bytes.toString('latin1', start, start + 64)) ?? []
  return parseHexQuantity(text)
}
