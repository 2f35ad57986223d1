import { definePlugin, assertKnownMethods, copyReply, memoizeFrozen } from '../../src/plugin/plugin.ts'
import type { Handler, Json, CachePolicy, Next, Services } from '../../src/plugin/plugin.ts'
import { SingleFlight } from './single-flight.ts'
import { MemoryCache } from './memory-cache.ts'
import type { CacheMiss } from './memory-cache.ts'
import { FinalizedCache, finalizedCacheOptions } from './finalized-cache.ts'
import { blockOfAnswer } from './block-of-answer.ts'

const cachePolicies = ['never', 'latest', 'block', 'mined'] as const

/**
 * Answers from memory, and one upstream call for identical calls in flight. What is final is kept until room is needed.
 * What may change is kept for the time between two polls at most, only until another head becomes known, and only if
 * it comes from a node that had told of the newest head. Errors, `null` and anything pending are never kept. The one
 * exception is a query for too much (`query returned more than 10000 results`): clients repeat it 4 to 10 times within
 * seconds.
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
        default: '10s',
        description:
          'How long the error of a query with too many results, or too wide for any node, is repeated from the cache; 0s: never.',
      },
      ...finalizedCacheOptions,
    },
  },
  check({ redisTtl }, report) {
    if (redisTtl === 0) report(['redisTtl'], 'redisTtl must be greater than 0')
  },
  reads: ['request'],
  shares: true,
  create({ maxBytes, methods: overrides, cacheTooManyFor, redis, ...limits }, services) {
    const { methods, heads, clock } = services
    assertKnownMethods(
      Object.keys(overrides).map(method => ({ path: ['methods', method], method })),
      methods,
    )
    const cachePolicyOf = (name: string): CachePolicy => overrides[name] ?? methods.get(name)?.cache ?? 'never'
    const methodCaches = new Map(methods.names.map(name => [name, { policy: cachePolicyOf(name), keyOf: cacheKeyFor(name) }]))
    const finalizedCache = redis && new FinalizedCache({ redis, ...limits }, services)
    const memoryCache = new MemoryCache({ maxBytes, cacheTooManyFor }, services, finalizedCache)
    const inFlight = new Map<string, SingleFlight>()

    const handle: Handler<'request'> = async (call, next) => {
      const { method, params } = call.context.request
      const methodCache = methodCaches.get(method)
      if (methodCache === undefined || methodCache.policy === 'never') return next(call)
      const key = services.vary(call) + methodCache.keyOf(params)
      const snapshot = heads.snapshot
      const hit = memoryCache.get(key, snapshot)
      if (hit !== undefined) {
        heads.recordActivity() // what is final is so while nobody sees it undone
        return hit
      }
      const running = inFlight.get(key)
      if (running?.mayJoin(snapshot) === true) return copyReply(await running.join(call), { cache: 'hit' })
      const requestedAt = clock.monotonic()
      const { policy } = methodCache
      const ask = finalizedCache === undefined ? next : requestThroughFinalizedCache(finalizedCache, { call, policy, key }, methods, next)
      const started = new SingleFlight(snapshot, call, ask, () => {
        if (inFlight.get(key) === started) inFlight.delete(key)
      })
      inFlight.set(key, started)
      const reply = await started.join(call)
      memoryCache.store({ call, policy, key, snapshot, requestedAt }, reply)
      return copyReply(reply, { cache: reply.source === 'cache' ? 'hit' : 'miss' })
    }
    return { handle, start: async () => finalizedCache?.open() }
  },
})

/** JSON text is unambiguous: `[[A,B]]` is not `[A,B]`. Parameters come normalised: equal questions have equal texts. */
const cacheKeyFor = (method: string) => memoizeFrozen((params: readonly Json[]) => `\n${method}\n${JSON.stringify(params)}`)

/** What other machines know comes before a node is asked. */
const requestThroughFinalizedCache = (
  shared: FinalizedCache,
  { call, policy, key }: Pick<CacheMiss, 'call' | 'policy' | 'key'>,
  methods: Services['methods'],
  next: Next<'request'>,
): Next<'request'> => {
  const query = { key, method: call.context.request.method, policy, block: blockOfAnswer(call, methods) }
  return async asking => (await shared.get(query)) ?? next(asking)
}
