import { LRUCache } from 'lru-cache'
import { ChunkedBytes, copyReply, isFailure, isJsonNull, metricDefinitions, toBuffer } from '../../src/plugin/plugin.ts'
import type { CachePolicy, ChainSnapshot, Failure, RawJson, Reply, Result, Services } from '../../src/plugin/plugin.ts'
import { isFinal, minedBlockOf } from './finality.ts'
import type { CacheQuery } from './finality.ts'

/** A request that a node must answer, and what was known before the node was requested. */
export interface CacheMiss extends CacheQuery {
  readonly snapshot: ChainSnapshot
  readonly transactionVersion: number
  /** On the monotonic clock. */
  readonly requestedAt: number
}

export interface MemoryCacheOptions {
  readonly maxBytes: number
  /** In ms. */
  readonly cacheTooManyFor: number
}

/** A reply, valid while the chain has the given versions: of its finalized blocks, of its head, or of what callers have sent. */
interface CachedReply {
  readonly reply: Reply
  readonly finalityVersion?: number
  readonly headVersion?: number
  readonly transactionVersion?: number | undefined
}

/** What stores final answers for longer than a memory does. */
export interface FinalReplyStore {
  /** Stores an answer that is final by the snapshot from before its request. */
  store(query: CacheQuery, reply: Result, snapshot: ChainSnapshot): void
}

/** The first level: answers in the memory of this process. Final answers are stored in the second level too. */
export class MemoryCache {
  readonly #options: MemoryCacheOptions
  readonly #services: Services
  readonly #secondLevelCache: FinalReplyStore | undefined
  readonly #replies: LRUCache<string, CachedReply>
  /** How long an answer is valid that may change with the next block. */
  readonly #latestTtlMs: number
  /**
   * Blocks come faster than polls, as on a development node that mines on demand: a transaction may be mined before the
   * sender's next call, before the gateway polls its block.
   */
  readonly #outpacesPolls: boolean

  constructor(options: MemoryCacheOptions, services: Services, secondLevelCache: FinalReplyStore | undefined) {
    const { network, heads } = services
    this.#options = options
    this.#services = services
    this.#secondLevelCache = secondLevelCache
    this.#replies = openReplyCache(options.maxBytes, services)
    this.#latestTtlMs = Math.min(network.blockTime, heads.pollIntervalMs)
    this.#outpacesPolls = network.blockTime < heads.pollIntervalMs
  }

  /** Reports its size while the pipeline runs. Returns how to stop. */
  measure(metrics: Services['metrics']): () => void {
    const [bytes, entries] = [metrics.gauge(metricDefinitions.cacheBytes, {}), metrics.gauge(metricDefinitions.cacheEntries, {})]
    return metrics.collect(() => {
      bytes.set(this.#replies.calculatedSize)
      entries.set(this.#replies.size)
    })
  }

  /** The reply for later callers, if it is still valid; only a final one unless the process is `isInStep` with the height that callers were given. */
  get(key: string, snapshot: ChainSnapshot, isInStep: boolean): Reply | undefined {
    const cached = this.#replies.get(key)
    if (cached === undefined || !isStillValid(cached, snapshot, isInStep)) return undefined
    const { reply, transactionVersion } = cached
    return transactionVersion === undefined || transactionVersion === this.#services.heads.transactionVersion ? reply : undefined
  }

  store(miss: CacheMiss, reply: Reply): void {
    const { policy, key, snapshot, transactionVersion, requestedAt } = miss
    const [replies, { heads, clock, methods }, { cacheTooManyFor }] = [this.#replies, this.#services, this.#options]
    const now = heads.snapshot
    if (reply.source === 'cache') {
      // From Redis, which holds final answers only.
      if (now.finalityVersion === snapshot.finalityVersion)
        replies.set(key, { reply: asCacheHit(reply), finalityVersion: snapshot.finalityVersion })
    } else if (isFailure(reply)) {
      if (isTooLargeQuery(reply) && cacheTooManyFor > 0) replies.set(key, { reply: asCacheHit(reply) }, { ttl: cacheTooManyFor })
    } else if (!isCacheable(policy, reply)) {
      replies.delete(key)
    } else if (now.finalityVersion === snapshot.finalityVersion && isFinal(miss, reply, snapshot, methods)) {
      replies.set(key, { reply: asCacheHit(reply), finalityVersion: snapshot.finalityVersion })
      this.#secondLevelCache?.store(miss, reply, snapshot)
    } else if (now.headVersion === snapshot.headVersion && snapshot.isCurrent(reply.upstream)) {
      const ttl = this.#latestTtlMs - (clock.monotonic() - requestedAt)
      const { headVersion } = snapshot
      const entry = { reply: asCacheHit(reply), headVersion, transactionVersion: this.#outpacesPolls ? transactionVersion : undefined }
      if (ttl > 0) replies.set(key, entry, { ttl })
    }
  }
}

/** Memory of an entry beside its key and its result: measured with 100,000 small entries. */
const entryOverheadBytes = 400

const openReplyCache = (maxBytes: number, { cacheBytes, singleton, clock, methods }: Services): LRUCache<string, CachedReply> => {
  const maxSize = Math.max(1, Math.min(maxBytes, cacheBytes)) // lru-cache takes 0 for no bound
  return singleton(
    'answers',
    // With other rules an answer may be another.
    { maxSize, rules: methods.rulesId },
    () =>
      new LRUCache<string, CachedReply>({
        maxSize,
        maxEntrySize: Math.max(1, Math.floor(maxSize / 4)),
        sizeCalculation: ({ reply }, key) => (isFailure(reply) ? 0 : reply.result.byteLength) + 2 * key.length + entryOverheadBytes,
        perf: { now: () => clock.monotonic() },
        ttlResolution: 0,
      }),
  )
}

const isStillValid = ({ finalityVersion, headVersion }: CachedReply, snapshot: ChainSnapshot, isInStep: boolean): boolean =>
  (finalityVersion === undefined || finalityVersion === snapshot.finalityVersion) &&
  (headVersion === undefined || (headVersion === snapshot.headVersion && isInStep))

const isTooLargeQuery = ({ kind, category }: Failure): boolean => kind === 'tooMany' || category === 'rangeTooWide'

const isCacheable = (policy: CachePolicy, { result, unexpectedType }: Result): boolean => {
  if (unexpectedType === true || isJsonNull(result)) return false
  return policy !== 'mined' || minedBlockOf(result) !== undefined
}

/** The reply for later callers: no node is requested for them, so an error costs them nothing. */
const asCacheHit = (reply: Reply): Reply => {
  const hit = copyReply<Reply>(reply, { source: 'cache', upstream: undefined, cache: 'hit', upstreamRequest: undefined })
  return isFailure(hit) ? hit : copyReply(hit, { result: detach(hit.result) })
}

/**
 * The result without the buffer that it is a part of, which would stay in memory as long: 64 KiB, for 66 bytes that came
 * compressed. Chunks above 1 MiB waste little.
 */
const detach = (result: RawJson): RawJson => {
  if (result instanceof ChunkedBytes) return result.byteLength > 1 << 20 ? result : toBuffer(result)
  return result.buffer.byteLength - result.byteLength > entryOverheadBytes ? Buffer.from(new Uint8Array(result).buffer) : result
}
