import { getOrCreate, metricDefinitions, resultMemoryOf } from '../../src/plugin/internal.ts'
import {
  assertKnownMethods,
  blockSelectorOf,
  createNameMatcher,
  definePlugin,
  isFailure,
  isJsonNull,
  refuseWrongResult,
  toBuffer,
} from '../../src/plugin/plugin.ts'
import type { Counter, Json, Method, Reply, Request, Result, Services } from '../../src/plugin/plugin.ts'
import { ChainRules } from './chain-rules.ts'
import type { Finding } from './chain-rules.ts'
import { MalformedMember } from './hex.ts'
import { resultChecks } from './result-checks.ts'

const policies = ['off', 'check'] as const

/** Refuses answers of nodes that contradict themselves, or their request: another node is asked. Sends no request of its own. */
export default definePlugin({
  name: 'verify',
  summary:
    'Checks blocks, transactions, receipts and logs of nodes by their hashes, roots, blooms and positions; asks another node in place of one that is wrong.',
  options: {
    type: 'object',
    properties: {
      methods: {
        type: 'object',
        additionalProperties: { type: 'string', enum: policies },
        default: {},
        description:
          'Policy by method, or by a pattern in which `*` is any text; the first that matches counts. off: answers pass on as they are. check: wrong answers are refused, the policy of all other methods.',
        examples: [{ eth_getLogs: 'off' }],
      },
      maxBytes: {
        type: 'string',
        format: 'size',
        usual: { min: '16KiB', max: '64MiB' },
        default: '1MiB',
        description: 'Longer results are not checked: 1 MiB takes about 15 ms of the event loop.',
      },
    },
  },
  reads: ['request', 'target'],
  create({ methods: policyByMethod, maxBytes }, services) {
    const { methods, log, network } = services
    assertKnownMethods(
      Object.keys(policyByMethod).map(method => ({ path: ['methods', method], method })),
      methods,
    )
    const matchers = Object.entries(policyByMethod).map(([name, policy]) => ({ matches: createNameMatcher([name]), policy }))
    const policyOf = (name: string) => matchers.find(({ matches }) => matches(name))?.policy ?? 'check'
    /** By name, the methods whose results are checked. */
    const checked = new Map<string, CheckedMethod>(
      methods.names.flatMap(name => {
        const method = methods.get(name)
        const check = method?.result === undefined || !isChecked(method.result) ? undefined : resultChecks[method.result]
        return method === undefined || check === undefined || policyOf(name) === 'off' ? [] : [[name, { method, check }] as const]
      }),
    )
    const rules = services.singleton('rules', null, () => {
      const onGivenUp = (rule: string) => log.warn({ rule }, 'rule given up: upstreams break it, and none keeps it')
      return new ChainRules(ethereumChainIds.has(network.chainId) && !network.devNode, onGivenUp)
    })
    const count = createCounters(services)

    /** The reply, or the failure in its place. */
    const verify = (result: Result, { method, check }: CheckedMethod, request: Request, upstream: string): Reply => {
      if (result.result.byteLength > maxBytes || isPending(method, request)) {
        count(upstream, 'unchecked')
        return result
      }
      const decisions = findingsOf(result, check, request).map(finding => ({ finding, decision: rules.decide(finding, upstream) }))
      const broken = decisions.find(({ decision }) => decision === 'refuse')
      if (broken === undefined) {
        count(upstream, decisions.some(({ decision }) => decision === 'pass') ? 'passed' : 'unchecked')
        return result
      }
      count(upstream, 'refused')
      resultMemoryOf(result)?.release()
      return refuseWrongResult(result, `not so: ${broken.finding.rule}`)
    }

    return {
      async handle(call, next) {
        const reply = await next(call)
        const { request, target } = call.context
        const checkedMethod = checked.get(request.method)
        if (checkedMethod === undefined || isFailure(reply) || isJsonNull(reply.result)) return reply
        const verified = verify(reply, checkedMethod, request, target.name)
        if (isFailure(verified))
          log.warn(
            { requestId: call.origin.requestId, upstream: target.name, method: request.method, cause: verified.cause },
            'upstream returned a wrong result',
          )
        return verified
      },
      explain: ({ method }) => ({
        text: [
          checked.has(method)
            ? `results of up to ${maxBytes} bytes are checked; another node is asked in place of one that is wrong`
            : 'results are not checked',
        ],
      }),
    }
  },
})

interface CheckedMethod {
  readonly method: Method
  readonly check: (value: Json, params: readonly Json[]) => readonly Finding[]
}

const isChecked = (kind: string): kind is keyof typeof resultChecks => Object.hasOwn(resultChecks, kind)

/** Ethereum, Sepolia, Holesky and Hoodi: all rules are known to hold. */
const ethereumChainIds: ReadonlySet<number> = new Set([1, 11_155_111, 17_000, 560_048])

/** A block that is being built has no hash, or one that changes. */
const isPending = (method: Method, { params }: Request): boolean => {
  const blocks = blockSelectorOf(method, params)
  return blocks !== undefined && !('hash' in blocks) && (blocks.from === 'pending' || blocks.to === 'pending')
}

/** None where the result is not what the method returns: the plugin `upstream` has checked its type. */
const findingsOf = ({ result }: Result, check: CheckedMethod['check'], { params }: Request): readonly Finding[] => {
  try {
    const value: Json = JSON.parse(toBuffer(result).toString())
    return check(value, params)
  } catch (error) {
    if (error instanceof MalformedMember) return []
    throw error
  }
}

type Outcome = 'passed' | 'refused' | 'unchecked'

/** Series are opened once: upstreams are few. */
const createCounters = ({ metrics }: Services) => {
  const series = new Map<string, Counter>()
  return (upstream: string, outcome: Outcome): void =>
    getOrCreate(series, `${outcome} ${upstream}`, () => metrics.counter(metricDefinitions.verifiedResults, { upstream, outcome })).add()
}
