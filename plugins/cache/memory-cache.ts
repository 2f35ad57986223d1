import { LRUCache } from 'lru-cache'
import { ChunkedBytes, copyReply, isFailure, metricDefinitions, resultMemoryOf, toBuffer } from '../../src/plugin/plugin.ts'
import type { ChainSnapshot, RawJson, Reply, ResultMemory, Services } from '../../src/plugin/plugin.ts'
import type { SecondLevelCache } from './second-level-cache.ts'
import { ReplyValidity, isCacheable } from './finality-and-ttl.ts'
import type { CacheMiss, Validity } from './finality-and-ttl.ts'

interface MemoryCacheOptions {
  readonly maxBytes: number
  /** In ms. */
  readonly cacheTooManyFor: number
}

interface CachedReply {
  readonly reply: Reply
  readonly validity: Validity
  /** Of a long result, which the entry holds. */
  readonly memory: ResultMemory | undefined
}

/** The first level: answers in the memory of this process. Final answers are stored in the second level too. */
export class MemoryCache {
  readonly #secondLevelCache: SecondLevelCache | undefined
  readonly #replies: LRUCache<string, CachedReply>
  readonly #validity: ReplyValidity
  readonly #heads: Services['heads']

  constructor({ maxBytes, cacheTooManyFor }: MemoryCacheOptions, services: Services, secondLevelCache: SecondLevelCache | undefined) {
    this.#secondLevelCache = secondLevelCache
    this.#replies = openReplyCache(maxBytes, services)
    this.#validity = new ReplyValidity(services, cacheTooManyFor)
    this.#heads = services.heads
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
    if (cached === undefined || !this.#isValid(cached.validity, snapshot, isInStep)) return undefined
    cached.memory?.addHolder()
    return cached.reply
  }

  /** Only final replies are valid in a process that is not `isInStep` with the height that callers were given. */
  #isValid({ finalityVersion, headVersion, transactionVersion }: Validity, snapshot: ChainSnapshot, isInStep: boolean): boolean {
    if (finalityVersion !== undefined && finalityVersion !== snapshot.finalityVersion) return false
    if (headVersion !== undefined && !(headVersion === snapshot.headVersion && isInStep)) return false
    return transactionVersion === undefined || transactionVersion === this.#heads.transactionVersion
  }

  store(miss: CacheMiss, reply: Reply): void {
    const { key, policy, snapshot } = miss
    const isNewResult = reply.source !== 'cache' && !isFailure(reply)
    if (isNewResult && !isCacheable(policy, reply)) return void this.#replies.delete(key)
    const validity = this.#validity.of(miss, reply)
    if (validity === undefined) return
    const { ttlMs, finalityVersion } = validity
    this.#set(key, { reply: asCacheHit(reply), validity }, ttlMs)
    if (isNewResult && finalityVersion !== undefined) this.#secondLevelCache?.store(miss, reply, snapshot)
  }

  #set(key: string, { reply, validity }: Pick<CachedReply, 'reply' | 'validity'>, ttlMs: number | undefined): void {
    const memory = resultMemoryOf(reply)
    memory?.addHolder()
    const status: LRUCache.Status<string, CachedReply> = {}
    this.#replies.set(key, { reply, validity, memory }, ttlMs === undefined ? { status } : { ttl: ttlMs, status })
    if (status.maxEntrySizeExceeded === true) memory?.release()
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
        dispose: ({ memory }) => void memory?.release(),
      }),
  )
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
