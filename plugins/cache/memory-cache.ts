import { LRUCache } from 'lru-cache'
import { copyReply, isFailure, ChunkedBytes, toBuffer } from '../../src/plugin/plugin.ts'
import type { Call, Failure, CachePolicy, Reply, Result, Services, RawJson, ChainSnapshot } from '../../src/plugin/plugin.ts'
import type { FinalizedCache } from './finalized-cache.ts'
import { minedBlockOf, blockOfAnswer } from './block-of-answer.ts'

/** A call that a node must answer, and what was known, at which time, before one was asked. */
export interface CacheMiss {
  readonly call: Call<'request'>
  readonly policy: CachePolicy
  readonly key: string
  readonly snapshot: ChainSnapshot
  readonly requestedAt: number
}

export interface MemoryCacheOptions {
  readonly maxBytes: number
  /** ms for which a query for too much is refused. */
  readonly cacheTooManyFor: number
}

/** An answer, and how long it stands: while final blocks stand, or while the head does in whose epoch it was asked. */
interface CachedReply {
  readonly reply: Reply
  readonly finalityVersion?: number
  readonly headVersion?: number
}

/** The first level: answers in the memory of this process. What is proved to be final goes to the second one too. */
export class MemoryCache {
  readonly #options: MemoryCacheOptions
  readonly #services: Services
  readonly #finalizedCache: FinalizedCache | undefined
  readonly #replies: LRUCache<string, CachedReply>
  /** ms for which an answer is kept that may change. */
  readonly #latestTtlMs: number

  constructor(options: MemoryCacheOptions, services: Services, finalizedCache: FinalizedCache | undefined) {
    const { network, heads } = services
    this.#options = options
    this.#services = services
    this.#finalizedCache = finalizedCache
    this.#replies = openReplyCache(options.maxBytes, services)
    this.#latestTtlMs = Math.min(network.blockTime, heads.pollIntervalMs)
  }

  /** The answer as later callers get it, if there is one that still stands. */
  get(key: string, snapshot: ChainSnapshot): Reply | undefined {
    const cached = this.#replies.get(key)
    return cached !== undefined && isStillValid(cached, snapshot) ? cached.reply : undefined
  }

  store(miss: CacheMiss, reply: Reply): void {
    const { policy, key, snapshot, requestedAt } = miss
    const [replies, { heads, clock }, { cacheTooManyFor }] = [this.#replies, this.#services, this.#options]
    const now = heads.snapshot
    if (reply.source === 'cache') {
      // final, by the word of another machine
      if (now.finalityVersion === snapshot.finalityVersion)
        replies.set(key, { reply: asCacheHit(reply), finalityVersion: snapshot.finalityVersion })
    } else if (isFailure(reply)) {
      if (isTooLargeQuery(reply) && cacheTooManyFor > 0) replies.set(key, { reply: asCacheHit(reply) }, { ttl: cacheTooManyFor })
    } else if (!isCacheable(policy, key, reply)) {
      replies.delete(key)
    } else if (now.finalityVersion === snapshot.finalityVersion && this.#isProvedFinal(miss, reply)) {
      replies.set(key, { reply: asCacheHit(reply), finalityVersion: snapshot.finalityVersion })
      this.#finalizedCache?.store({ key }, reply, snapshot)
    } else if (now.headVersion === snapshot.headVersion && snapshot.isCurrent(reply.upstream)) {
      const ttl = this.#latestTtlMs - (clock.monotonic() - requestedAt)
      if (ttl > 0) replies.set(key, { reply: asCacheHit(reply), headVersion: snapshot.headVersion }, { ttl })
    }
  }

  /** Is the answer about a block that the node which gave it had called final before it was asked? */
  #isProvedFinal({ call, policy, snapshot }: CacheMiss, { result, upstream }: Result): boolean {
    const block = policy === 'mined' ? minedBlockOf(result) : policy === 'block' ? blockOfAnswer(call, this.#services.methods) : undefined
    return block !== undefined && snapshot.isFinal(upstream, block)
  }
}

/** Bytes that an entry takes beside its key and its result: measured with 100,000 small entries. */
const entryOverheadBytes = 400

const openReplyCache = (maxBytes: number, { cacheBytes, singleton, clock }: Services): LRUCache<string, CachedReply> => {
  const maxSize = Math.max(1, Math.min(maxBytes, cacheBytes)) // lru-cache takes 0 for no bound
  return singleton(
    'answers',
    { maxSize },
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

const isStillValid = ({ finalityVersion, headVersion }: CachedReply, view: ChainSnapshot): boolean =>
  (finalityVersion === undefined || finalityVersion === view.finalityVersion) &&
  (headVersion === undefined || headVersion === view.headVersion)

const isTooLargeQuery = ({ kind, category }: Failure): boolean => kind === 'tooMany' || category === 'rangeTooWide'

const isCacheable = (policy: CachePolicy, key: string, { result, unexpectedType }: Result): boolean => {
  if (unexpectedType === true || isNullResult(result) || key.includes('"pending"')) return false
  return policy !== 'mined' || minedBlockOf(result) !== undefined
}

const jsonNull = Buffer.from('null')

const isNullResult = (result: RawJson): boolean => result.byteLength === jsonNull.length && toBuffer(result).equals(jsonNull)

/** The reply as later callers get it: no node was asked for them, so a refusal costs them nothing. */
const asCacheHit = (reply: Reply): Reply => {
  const metadata = { source: 'cache', upstream: undefined, cache: 'hit' } as const
  return isFailure(reply) ? copyReply(reply, metadata) : copyReply(reply, { ...metadata, result: detach(reply.result) })
}

/** What is part of something longer would keep all of that: 64 KiB, for 66 bytes that came compressed. In 1 MiB that is little. */
const detach = (text: RawJson): RawJson => {
  if (text instanceof ChunkedBytes) return text.byteLength > 1 << 20 ? text : toBuffer(text)
  return text.buffer.byteLength - text.byteLength > entryOverheadBytes ? Buffer.from(new Uint8Array(text).buffer) : text
}
