import { directStage } from '../../src/plugin/internal.ts'
import type { CachePolicy } from '../../src/plugin/internal.ts'
import { assertKnownMethods, definePlugin } from '../../src/plugin/plugin.ts'
import type { ExplainedCall, Explanation } from '../../src/plugin/plugin.ts'
import { createUncachedHandlers } from './calls-in-flight.ts'
import { MemoryCache, createCachingHandler, openMethodCaches } from './memory-cache.ts'
import { SecondLevelCache } from './second-level-cache.ts'

const cachePolicies = ['never', 'latest', 'block', 'mined'] as const

/**
 * Answers from memory, and shares one upstream call among identical calls in flight.
 *
 * Final answers are cached until their memory is needed. Answers that may change are cached for one poll interval at most,
 * until the head changes, and only if they come from a node that had reported the newest head. Errors, `null` and anything
 * pending are not cached, with one exception: the error of a query for too much (`query returned more than 10000 results`),
 * which clients repeat 4 to 10 times within seconds. Of a development node nothing is cached: its tools change any block.
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
      redis: {
        type: 'string',
        format: 'redis',
        description: 'URL of a Redis in which gateways share finalized results; not the Redis of the store.',
        examples: ['redis://127.0.0.1:6380'],
      },
    },
  },
  reads: ['request'],
  shares: true,
  withoutHeads: 'results outlive new blocks by up to one poll interval, and none is cached for longer, however old its block',
  create({ maxBytes, methods: overrides, redis }, services) {
    const { methods, network } = services
    assertKnownMethods(
      Object.keys(overrides).map(method => ({ path: ['methods', method], method })),
      methods,
    )
    if (network.devNode) return directStage({ handle: (call, next) => next(call), explain: () => ({ text: [explanations.never] }) })
    const methodCacheOf = openMethodCaches(overrides, services)
    let stopMeasuring = () => {}
    const secondLevelCache = redis && new SecondLevelCache(redis, services)
    const memoryCache = new MemoryCache(maxBytes, services, secondLevelCache)
    const uncachedHandlers = createUncachedHandlers({ memoryCache, secondLevelCache }, services)
    const explain = ({ method }: ExplainedCall): Explanation => {
      const methodCache = methodCacheOf(method)
      return { text: [explainPolicy(methodCache === undefined || methodCache.sends ? 'never' : methodCache.policy)] }
    }
    return directStage({
      handle: createCachingHandler({ methodCacheOf, memoryCache, ...uncachedHandlers }, services),
      explain,
      async start() {
        stopMeasuring = memoryCache.measure(services.metrics)
        await secondLevelCache?.open()
      },
      stop: async () => stopMeasuring(),
    })
  },
})

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
