import { copyReply, isFailure, memoizeFrozen, metricDefinitions, stringifyJson } from '../../src/plugin/plugin.ts'
import type { CachePolicy, Call, Counter, DirectHandler, DirectNext, Json, Method, Reply, Services } from '../../src/plugin/plugin.ts'
import { CallsInFlight } from './calls-in-flight.ts'
import type { MemoryCache } from './memory-cache.ts'
import type { SecondLevelCache } from './second-level-cache.ts'
import type { CacheQuery } from './finality-and-ttl.ts'

interface CacheLevels {
  readonly methodCaches: ReadonlyMap<string, MethodCache>
  readonly memoryCache: MemoryCache
  readonly secondLevelCache: SecondLevelCache | undefined
}

/** Answers from the first level that has the answer; otherwise calls that ask the same at the same time share one request. */
export const createCachingHandler = (levels: CacheLevels, services: Services): DirectHandler<'request'> => {
  const { methodCaches, memoryCache } = levels
  const { heads } = services
  const recordHit = (methodCache: MethodCache, hit: Reply): Reply => {
    methodCache.recordLookup('memory')
    heads.recordActivity() // the head is followed, so that a reorg ends the hit
    return hit
  }
  const answerMiss = createMissHandler(levels, services, recordHit)
  return (call, next) => {
    const { request } = call.context
    const methodCache = methodCaches.get(request.method)
    if (methodCache === undefined) return next(call)
    if (methodCache.sends) return send(call, next, { heads, changesNode: methodCache.changesNode })
    const requestKey = methodCache.keyOf(request.params)
    if (requestKey === undefined) return next(call)
    const variant = services.vary(call)
    const key = variant + requestKey
    const hit = memoryCache.get(key, heads.snapshot, !heads.mayLag)
    return hit === undefined ? answerMiss(call, next, { methodCache, key, variant }) : recordHit(methodCache, hit)
  }
}

/** The key that was looked up, and what it was made of. */
interface CacheLookup {
  readonly methodCache: MethodCache
  readonly key: string
  readonly variant: string
}

type MissHandler = (call: Call<'request'>, next: DirectNext<'request'>, lookup: CacheLookup) => Promise<Reply>

/** Answers what the memory had no answer to. */
const createMissHandler = (
  { memoryCache, secondLevelCache }: CacheLevels,
  services: Services,
  recordHit: (methodCache: MethodCache, hit: Reply) => Reply,
): MissHandler => {
  const { heads, clock, log } = services
  const callsInFlight = new CallsInFlight(services)
  return async (call, next, { methodCache, key, variant }) => {
    const { request } = call.context
    let isInStep = !heads.mayLag
    if (!isInStep) {
      isInStep = await heads.sync()
      const hit = memoryCache.get(key, heads.snapshot, isInStep)
      if (hit !== undefined) return recordHit(methodCache, hit)
    }
    const snapshot = heads.snapshot
    const callInFlight = isInStep ? callsInFlight.find(key) : undefined
    if (callInFlight !== undefined) {
      methodCache.recordLookup('joined')
      callInFlight.span?.linkFromCurrent()
      log.debug({ requestId: call.origin.requestId, joinedRequestId: callInFlight.requestId }, 'call joined an identical call in flight')
      return copyReply(await callInFlight.join(call), { cache: 'hit' })
    }
    const { transactionVersion } = heads
    const miss = { key, policy: methodCache.policy, request, snapshot, transactionVersion, requestedAt: clock.monotonic() }
    const below = secondLevelCache === undefined ? next : lookUpBefore(next, secondLevelCache, miss)
    const reply = await callsInFlight.begin(key, call, variant, below).join(call)
    memoryCache.store(miss, reply)
    methodCache.recordLookup(reply.source === 'cache' ? 'redis' : 'miss')
    return copyReply(reply, { cache: reply.source === 'cache' ? 'hit' : 'miss' })
  }
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
  /** A call may change it at once, without a new block, as the tools of development nodes do. */
  readonly changesNode: boolean
  readonly #openCounter: (result: LookupResult) => Counter
  readonly #counters: Partial<Record<LookupResult, Counter>> = {}

  constructor({ name, blockParam, idempotent, retryable }: Method, policy: CachePolicy, metrics: Services['metrics']) {
    this.policy = policy
    this.keyOf = policy === 'never' ? () => undefined : cacheKeyFor(name, blockParam)
    this.sends = !idempotent
    this.changesNode = retryable === false
    this.#openCounter = result => metrics.counter(metricDefinitions.cacheLookups, { method: name, result })
  }

  /** A series begins with its first look-up. */
  recordLookup(result: LookupResult): void {
    const counter = (this.#counters[result] ??= this.#openCounter(result))
    counter.add()
  }
}

export const createMethodCaches = (
  overrides: Readonly<Record<string, CachePolicy>>,
  { methods, metrics }: Services,
): ReadonlyMap<string, MethodCache> =>
  new Map(
    methods.names.flatMap(name => {
      const method = methods.get(name)
      return method === undefined ? [] : [[name, new MethodCache(method, overrides[name] ?? method.cache, metrics)] as const]
    }),
  )

/**
 * JSON text is unambiguous: `[[A,B]]` is not `[A,B]`. Parameters are normalized: equal requests have equal texts. Undefined for
 * calls about the pending block, which changes with each transaction that is sent.
 */
const cacheKeyFor = (method: string, blockParam: number | undefined) =>
  memoizeFrozen((params: readonly Json[]) => {
    const text = stringifyJson(params)
    return text.includes('"pending"') || lacksBlock(params, blockParam) ? undefined : `\n${method}\n${text}`
  })

/** For a missing block, where the method table has no default, some nodes take the pending block. */
const lacksBlock = (params: readonly Json[], blockParam: number | undefined): boolean =>
  blockParam !== undefined && (params[blockParam] ?? null) === null

/**
 * Passes on a call that may change the state of the chain. Its answer is delivered when no later call can join one that began
 * before. Only a refusal and a node's own error say that there is no transaction.
 */
const send = async (
  call: Call<'request'>,
  next: DirectNext<'request'>,
  { heads, changesNode }: { readonly heads: Services['heads']; readonly changesNode: boolean },
): Promise<Reply> => {
  const reply = await next(call)
  const isRefused = isFailure(reply) && reply.fault !== 'upstream'
  if (!isRefused) await heads.recordTransaction(changesNode)
  return reply
}

/** Looks up the answer in Redis before a node is requested. */
const lookUpBefore =
  (next: DirectNext<'request'>, secondLevelCache: SecondLevelCache, query: CacheQuery): DirectNext<'request'> =>
  async call =>
    (await secondLevelCache.get(query)) ?? next(call)
