import { LRUCache } from 'lru-cache'
import { metricDefinitions, resultMemoryOf, ChunkedBytes, memoizeFrozen, withSameText } from '../../src/plugin/internal.ts'
import type { CachePolicy, DirectHandler, DirectNext, ResultMemory, RawJson } from '../../src/plugin/internal.ts'
import { copyReply, isFailure, toBuffer } from '../../src/plugin/plugin.ts'
import type { Call, Counter, Json, Method, Reply, Services } from '../../src/plugin/plugin.ts'
import type { SecondLevelCache } from './second-level-cache.ts'
import { ReplyValidity, isCacheable } from './finality-and-ttl.ts'
import type { CacheMiss, Validity } from './finality-and-ttl.ts'

/** A call that the memory has no answer to: the key that was looked up, and what it was made of. */
interface UncachedCall {
  readonly call: Call<'request'>
  readonly next: DirectNext<'request'>
  readonly methodCache: MethodCache
  readonly key: string
  readonly variant: string
}

/** Answers the calls that the memory does not. */
export interface UncachedHandlers {
  answerMiss(uncached: UncachedCall): Promise<Reply>
  /** For a call that may change the state of the chain. */
  send(call: Call<'request'>, next: DirectNext<'request'>): Promise<Reply>
}

interface CachingOptions extends UncachedHandlers {
  readonly methodCacheOf: FindMethodCache
  readonly memoryCache: MemoryCache
}

/** Answers from memory. */
export const createCachingHandler =
  ({ methodCacheOf, memoryCache, answerMiss, send }: CachingOptions, { heads, vary }: Services): DirectHandler<'request'> =>
  (call, next) => {
    const { method, params } = call.context.request
    const methodCache = methodCacheOf(method)
    if (methodCache === undefined) return next(call)
    if (methodCache.sends) return send(call, next)
    const requestKey = methodCache.keyOf(params)
    if (requestKey === undefined) return next(call)
    const variant = vary(call)
    const key = variant + requestKey
    return memoryCache.get(key, call, methodCache, !heads.mayLag) ?? answerMiss({ call, next, methodCache, key, variant })
  }

/** What has answered a call. */
type LookupResult = 'memory' | 'redis' | 'joined' | 'miss'

/** What a call needs to know of its method. */
class MethodCache {
  readonly policy: CachePolicy
  /** The key of a request; undefined for a request that is neither cached nor shared. */
  readonly keyOf: (params: readonly Json[]) => string | undefined
  /** A call may change the state of the chain. */
  readonly sends: boolean
  readonly #openCounter: (result: LookupResult) => Counter
  readonly #counters: Partial<Record<LookupResult, Counter>> = {}

  constructor({ name, blockParam, idempotent }: Method, policy: CachePolicy, metrics: Services['metrics']) {
    this.policy = policy
    this.keyOf = policy === 'never' ? () => undefined : cacheKeyFor(name, blockParam)
    this.sends = !idempotent
    this.#openCounter = result => metrics.counter(metricDefinitions.cacheLookups, { method: name, result })
  }

  /** A series begins with its first look-up. */
  recordLookup(result: LookupResult): void {
    const counter = (this.#counters[result] ??= this.#openCounter(result))
    counter.add()
  }
}

/** What the cache knows of a method; undefined for one that the network does not offer. */
type FindMethodCache = (method: string) => MethodCache | undefined

/** Each is created with the first call of its method: most networks use few of the methods. */
export const openMethodCaches = (
  overrides: Readonly<Record<string, CachePolicy>>,
  { methods, metrics }: Pick<Services, 'methods' | 'metrics'>,
): FindMethodCache => {
  const created = new Map<string, MethodCache>()
  const create = (name: string): MethodCache | undefined => {
    const method = methods.get(name)
    if (method === undefined) return undefined
    const methodCache = new MethodCache(method, overrides[name] ?? method.cache, metrics)
    created.set(name, methodCache)
    return methodCache
  }
  return name => created.get(name) ?? create(name)
}

/**
 * JSON text is unambiguous: `[[A,B]]` is not `[A,B]`. Parameters are normalized: equal requests have equal texts. Undefined for
 * calls about the pending block, which changes with each transaction that is sent.
 */
const cacheKeyFor = (method: string, blockParam: number | undefined) =>
  memoizeFrozen((params: readonly Json[]) => {
    const text = JSON.stringify(params)
    return text.includes('"pending"') || lacksBlock(params, blockParam) ? undefined : `\n${method}\n${text}`
  })

/** For a missing block, where the method table has no default, some nodes take the pending block. */
const lacksBlock = (params: readonly Json[], blockParam: number | undefined): boolean =>
  blockParam !== undefined && (params[blockParam] ?? null) === null

interface CachedReply extends Validity {
  readonly reply: Reply
  /** Of a long result, which the entry holds. */
  readonly memory: ResultMemory | undefined
}

/** The first level: answers in the memory of this process. Final answers are stored in the second level too. */
export class MemoryCache {
  readonly #secondLevelCache: SecondLevelCache | undefined
  readonly #replies: LRUCache<string, CachedReply>
  readonly #validity: ReplyValidity
  readonly #heads: Services['heads']

  constructor(maxBytes: number, services: Services, secondLevelCache: SecondLevelCache | undefined) {
    this.#secondLevelCache = secondLevelCache
    this.#replies = openReplyCache(maxBytes, services)
    this.#validity = new ReplyValidity(services)
    this.#heads = services.heads
  }

  /** Reports its size while the pipeline runs. Returns how to stop. */
  measure(metrics: Services['metrics']): () => void {
    const bytes = metrics.gauge(metricDefinitions.cacheBytes, {})
    return metrics.collect(() => bytes.set(this.#replies.calculatedSize))
  }

  /**
   * The reply for a later caller, if it is still valid; only a final one unless the process is `isInStep` with the height that callers were given.
   * It may be as old as is allowed when the call began. It counts as a hit of the method.
   */
  get(key: string, { startedAtMs }: Call, methodCache: MethodCache, isInStep: boolean): Reply | undefined {
    const cached = this.#replies.get(key)
    if (cached === undefined || !this.#isValid(cached, isInStep)) return undefined
    if (startedAtMs > cached.expiresAtMs) return void this.#replies.delete(key)
    methodCache.recordLookup('memory')
    this.#heads.recordActivity() // the head is followed, so that a reorg ends the hit
    cached.memory?.addHolder()
    return copyReply(cached.reply, {})
  }

  #isValid({ finalityVersion, headVersion, transactionVersion }: Validity, isInStep: boolean): boolean {
    const { snapshot } = this.#heads
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
    this.#set(key, asCacheHit(reply), validity)
    if (isNewResult && validity.finalityVersion !== undefined) this.#secondLevelCache?.store(miss, reply, snapshot)
  }

  #set(key: string, reply: Reply, { finalityVersion, headVersion, transactionVersion, expiresAtMs }: Validity): void {
    const size = (isFailure(reply) ? 0 : reply.result.byteLength) + 2 * key.length + entryOverheadBytes
    if (size > this.#replies.maxEntrySize) return void this.#replies.delete(key)
    const memory = resultMemoryOf(reply)
    memory?.addHolder()
    this.#replies.set(key, { reply, memory, finalityVersion, headVersion, transactionVersion, expiresAtMs }, { size })
  }
}

/** Memory of an entry beside its key and its result: measured with 100,000 small entries. */
const entryOverheadBytes = 400

const openReplyCache = (maxBytes: number, { cacheBytes, singleton, methods }: Services): LRUCache<string, CachedReply> => {
  const maxSize = Math.max(1, Math.min(maxBytes, cacheBytes)) // lru-cache takes 0 for no bound
  return singleton(
    'answers',
    // With other rules an answer may be another.
    { maxSize, rules: methods.rulesId },
    () =>
      // Without its ttl, which takes 0.2 us more for each entry than a time in the entry.
      new LRUCache<string, CachedReply>({
        maxSize,
        maxEntrySize: Math.max(1, Math.floor(maxSize / 4)),
        dispose: ({ memory }) => void memory?.release(),
      }),
  )
}

/** The reply for later callers: no node is requested for them, so an error costs them nothing. */
const asCacheHit = (reply: Reply): Reply => {
  const hit = copyReply<Reply>(reply, { source: 'cache', upstream: undefined, cache: 'hit', upstreamRequest: undefined })
  return isFailure(hit) ? hit : withSameText(hit, detach(hit.result))
}

/**
 * The result without the buffer that it is a part of, which would stay in memory as long: 64 KiB, for 66 bytes that came
 * compressed. Chunks above 1 MiB waste little.
 */
const detach = (result: RawJson): RawJson => {
  if (result instanceof ChunkedBytes) return result.byteLength > 1 << 20 ? result : toBuffer(result)
  return result.buffer.byteLength - result.byteLength > entryOverheadBytes ? Buffer.from(new Uint8Array(result).buffer) : result
}
