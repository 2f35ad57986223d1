import {
  assertKnownMethods,
  copyReply,
  definePlugin,
  directStage,
  isFailure,
  memoizeFrozen,
  stringifyJson,
} from '../../src/plugin/plugin.ts'
import type {
  CachePolicy,
  Call,
  DirectHandler,
  DirectNext,
  ExplainedCall,
  Explanation,
  Json,
  Method,
  Reply,
  Services,
} from '../../src/plugin/plugin.ts'
import { CallsInFlight } from './calls-in-flight.ts'
import { LookupCounters } from './lookup-counters.ts'
import { SecondLevelCache, secondLevelCacheOptions } from './second-level-cache.ts'
import type { CacheQuery } from './finality.ts'
import { MemoryCache } from './memory-cache.ts'

const cachePolicies = ['never', 'latest', 'block', 'mined'] as const

/**
 * Answers from memory, and shares one upstream call among identical calls in flight.
 *
 * Final answers are cached until their memory is needed. Answers that may change are cached for one poll interval at most,
 * until the head changes, and only if they come from a node that had reported the newest head. Errors, `null` and anything
 * pending are not cached, with one exception: the error of a query for too much (`query returned more than 10000 results`),
 * which clients repeat 4 to 10 times within seconds.
 */
export default definePlugin({
  name: 'cache',
  summary: 'Answers repeated calls from memory; identical calls in flight share one upstream call.',
  options: {
    type: 'object',
    properties: {
      maxBytes: {
        type: 'string',
        format: 'size',
        usual: { min: '64KiB', max: '256GiB' },
        default: '64MiB',
        description: "Maximum memory for this network's results; less where its share of `memory` in gateway.yaml is less.",
      },
      methods: {
        type: 'object',
        additionalProperties: { type: 'string', enum: cachePolicies },
        default: {},
        description: 'Cache policy by method, in place of `cache` in the method table.',
        examples: [{ eth_gasPrice: 'never' }],
      },
      cacheTooManyFor: {
        type: 'string',
        format: 'duration',
        usual: { min: '100ms', max: '1h' },
        default: '10s',
        description:
          'How long the error of a query with too many results, or too wide for any node, is repeated from the cache; 0s: never.',
      },
      ...secondLevelCacheOptions,
    },
  },
  check({ redisTtl }, report) {
    if (redisTtl === 0) report(['redisTtl'], 'redisTtl must be greater than 0')
  },
  reads: ['request'],
  shares: true,
  withoutHeads: 'results outlive new blocks by up to one poll interval, and none is cached for longer, however old its block',
  create({ maxBytes, methods: overrides, cacheTooManyFor, redis, ...redisLimits }, services) {
    const { methods } = services
    assertKnownMethods(
      Object.keys(overrides).map(method => ({ path: ['methods', method], method })),
      methods,
    )
    const methodCaches = new Map(methods.names.map(name => [name, createMethodCache(name, methods.get(name), overrides[name])]))
    let stopMeasuring = () => {}
    const secondLevelCache = redis && new SecondLevelCache({ redis, ...redisLimits }, services)
    const memoryCache = new MemoryCache({ maxBytes, cacheTooManyFor }, services, secondLevelCache)
    const explain = ({ method }: ExplainedCall): Explanation => {
      const methodCache = methodCaches.get(method)
      return { text: [explainPolicy(methodCache === undefined || methodCache.sends ? 'never' : methodCache.policy)] }
    }
    return directStage({
      handle: createHandler({ methodCaches, memoryCache, secondLevelCache }, services),
      explain,
      async start() {
        stopMeasuring = memoryCache.measure(services.metrics)
        await secondLevelCache?.open()
      },
      stop: async () => stopMeasuring(),
    })
  },
})

interface CacheLevels {
  readonly methodCaches: ReadonlyMap<string, MethodCache>
  readonly memoryCache: MemoryCache
  readonly secondLevelCache: SecondLevelCache | undefined
}

/** Answers from the first level that has the answer; otherwise calls that ask the same at the same time share one request. */
const createHandler = (levels: CacheLevels, services: Services): DirectHandler<'request'> => {
  const { methodCaches, memoryCache } = levels
  const { heads } = services
  const lookups = new LookupCounters(services.metrics)
  const recordHit = (method: string, hit: Reply): Reply => {
    lookups.record(method, 'memory')
    heads.recordActivity() // the head is followed, so that a reorg ends the hit
    return hit
  }
  const answerMiss = createMissHandler(levels, services, { lookups, recordHit })
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
    return hit === undefined ? answerMiss(call, next, { methodCache, key, variant }) : recordHit(request.method, hit)
  }
}

interface LookupRecords {
  readonly lookups: LookupCounters
  recordHit(method: string, hit: Reply): Reply
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
  { lookups, recordHit }: LookupRecords,
): MissHandler => {
  const { heads, clock, log } = services
  const callsInFlight = new CallsInFlight(services)
  return async (call, next, { methodCache, key, variant }) => {
    const { request } = call.context
    let isInStep = !heads.mayLag
    if (!isInStep) {
      isInStep = await heads.sync()
      const hit = memoryCache.get(key, heads.snapshot, isInStep)
      if (hit !== undefined) return recordHit(request.method, hit)
    }
    const snapshot = heads.snapshot
    const callInFlight = isInStep ? callsInFlight.find(key) : undefined
    if (callInFlight !== undefined) {
      lookups.record(request.method, 'joined')
      callInFlight.span?.linkFromCurrent()
      log.debug({ requestId: call.origin.requestId, joinedRequestId: callInFlight.requestId }, 'call joined an identical call in flight')
      return copyReply(await callInFlight.join(call), { cache: 'hit' })
    }
    const { transactionVersion } = heads
    const miss = { key, policy: methodCache.policy, request, snapshot, transactionVersion, requestedAt: clock.monotonic() }
    const below = secondLevelCache === undefined ? next : lookUpBefore(next, secondLevelCache, miss)
    const reply = await callsInFlight.begin(key, call, variant, below).join(call)
    memoryCache.store(miss, reply)
    lookups.record(request.method, reply.source === 'cache' ? 'redis' : 'miss')
    return copyReply(reply, { cache: reply.source === 'cache' ? 'hit' : 'miss' })
  }
}

/** What a call needs to know of its method. */
interface MethodCache {
  readonly policy: CachePolicy
  /** The key of a request; undefined for a request that is neither cached nor shared. */
  keyOf(params: readonly Json[]): string | undefined
  /** A call may change the state of the chain. */
  readonly sends: boolean
  /** A call may change it at once, without a new block, as the tools of development nodes do. */
  readonly changesNode: boolean
}

const createMethodCache = (name: string, method: Method | undefined, override: CachePolicy | undefined): MethodCache => {
  const policy = override ?? method?.cache ?? 'never'
  const keyOf = policy === 'never' ? () => undefined : cacheKeyFor(name, method?.blockParam)
  return { policy, keyOf, sends: method?.idempotent === false, changesNode: method?.retryable === false }
}

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

/** What `tollgate explain` says of a cache policy. */
const explainPolicy = (policy: CachePolicy): string =>
  policy === 'never' ? explanations.never : `${explanations[policy]}; identical calls in flight share one upstream call`

const explanations: Readonly<Record<CachePolicy, string>> = {
  never: 'not cached: each call reaches a node',
  latest: 'cached until there is a newer block, for one poll interval at most',
  block:
    'cached as long as the block that the parameters name: until there is a newer block, for one poll interval at most, and for good once it is final',
  mined: 'cached as long as the block that the result names, and for good once it is final; `null` is not cached',
}
