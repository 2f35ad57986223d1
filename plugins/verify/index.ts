import { getOrCreate, metricDefinitions } from '../../src/plugin/internal.ts'
import {
  Misconfigured,
  assertKnownMethods,
  copyReply,
  blockSelectorOf,
  createNameMatcher,
  definePlugin,
  isFailure,
  isJsonNull,
  refuseWrongResult,
  releaseResult,
  toBuffer,
} from '../../src/plugin/plugin.ts'
import type { Counter, Json, Method, Reply, Request, Result, Services } from '../../src/plugin/plugin.ts'
import { ChainRules } from './chain-rules.ts'
import type { Finding } from './chain-rules.ts'
import { MalformedMember } from './hex.ts'
import { resultChecks } from './result-checks.ts'
import { FeedHeaders } from './feed-headers.ts'
import { headerChecks } from './header-checks.ts'
import { HistoryAnswers, provableHistory } from './history-answers.ts'
import { LogAnswers } from './log-answers.ts'
import type { NextPlugin, RefuseWrong, VerifiedCall } from './node-requests.ts'
import { ProvenBlocks } from './proven-blocks.ts'
import { policyPattern, quorumOf, toPolicies } from './policies.ts'
import type { Quorum } from './policies.ts'
import { QuorumAnswers } from './quorum-answers.ts'
import { StateAnswers } from './state-answers.ts'
import { TrustedHeaders } from './trusted-headers.ts'
import type { TrustedHeader } from './trusted-headers.ts'
import { checkUpstreams, provableMethods } from './upstreams-check.ts'

/**
 * Refuses answers of nodes that contradict themselves, or their request: another node is asked. Of the state, it answers what is proven by the headers
 * that nodes agree on, where the policy is `proof`.
 */
export default definePlugin({
  name: 'verify',
  summary:
    'Checks blocks, transactions, receipts and logs of nodes by their hashes, roots, blooms and positions; asks another node in place of one that is wrong.',
  options: {
    type: 'object',
    properties: {
      methods: {
        type: 'object',
        additionalProperties: { type: 'string', pattern: policyPattern, label: 'off, check, proof, or a quorum such as 2 of 3' },
        default: {},
        description:
          'Policy by method, or by a pattern in which `*` is any text; the first that matches counts. off: answers pass on as they are. check: wrong answers are refused, the policy of all other methods. proof, for state, blocks, transactions, receipts and logs: they are answered with what headers prove, and other methods are checked. A quorum such as `2 of 3`: so many of so many upstreams must have the same answer.',
        examples: [{ eth_getLogs: 'off', eth_getBalance: 'proof', eth_call: '2 of 3' }],
      },
      agree: {
        type: 'integer',
        minimum: 1,
        description:
          'For `proof`: so many upstreams must have the same header at its height. Default: a majority of those that answer, and 2 at least where there are 2.',
        examples: [2],
      },
      maxBlocks: {
        type: 'integer',
        minimum: 1,
        default: 32,
        description: 'Most blocks of one eth_getLogs with the policy `proof`; queries over more blocks are checked.',
      },
      maxProofBytes: {
        type: 'string',
        format: 'size',
        usual: { min: '256KiB', max: '1GiB' },
        default: '32MiB',
        description:
          'Most bytes of receipts and transactions that one eth_getLogs with the policy `proof` needs; queries that need more are checked. A full block of Ethereum has 1 MiB.',
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
  reads: ['request', 'target', 'upstreams'],
  writes: ['request', 'target'],
  variesBy: ['request'],
  /** What was verified by another policy, before a reload or by another gateway, is no answer. */
  vary: ({ request }, options) => toPolicies(options).of(request.method),
  check({ methods }, report) {
    for (const [name, policy] of Object.entries(methods)) {
      if (policy === 'proof' && !provableMethods.some(createNameMatcher([name])))
        report(['methods', name], `nothing is proven of ${name}: \`proof\` is for ${provableMethods.join(', ')}`)
      const { required, asked } = quorumOf(policy) ?? { required: 1, asked: 1 }
      if (required > asked) report(['methods', name], `\`${policy}\` asks fewer upstreams than must have the same answer`)
      else if (2 * required <= asked)
        report(
          ['methods', name],
          `\`${policy}\` is no majority, so that two answers could have it: write \`${Math.floor(asked / 2) + 1} of ${asked}\``,
        )
    }
  },
  checkPipeline: checkUpstreams,
  create(options, services) {
    const { maxBytes, agree, maxBlocks, maxProofBytes } = options
    const { methods, log, network } = services
    assertKnownMethods(
      Object.keys(options.methods).map(method => ({ path: ['methods', method], method })),
      methods,
    )
    const policies = toPolicies(options)
    const quorums = new Map(Object.values(options.methods).map(policy => [policy, quorumOf(policy)]))
    const notComparable = Object.entries(options.methods).flatMap(([name, policy]) => {
      const method = methods.get(name)
      return quorumOf(policy) === undefined || method === undefined || isComparable(method)
        ? []
        : [{ path: ['methods', name], message: `${name} is for one upstream alone: a quorum would send it to several` }]
    })
    if (notComparable.length > 0) throw new Misconfigured(notComparable)
    const checked = new Map<string, CheckedMethod | 'unchecked'>()
    const toChecked = (method: Method): CheckedMethod | 'unchecked' => {
      const check = method.result === undefined || !isChecked(method.result) ? undefined : resultChecks[method.result]
      const headerCheck = isHeaderChecked(method.result) ? headerChecks[method.result] : undefined
      return check === undefined ? 'unchecked' : { method, check, headerCheck }
    }
    /** Undefined where results are not checked. Found with the first call of a method: most networks use few of the methods. */
    const checkedOf = (name: string): CheckedMethod | undefined => {
      const method = methods.get(name)
      const found = method && getOrCreate(checked, name, () => toChecked(method))
      return found === 'unchecked' ? undefined : found
    }
    const rules = services.singleton('rules', null, () => {
      const onGivenUp = (rule: string) => log.warn({ rule }, 'rule given up: upstreams break it, and none keeps it')
      return new ChainRules(ethereumChainIds.has(network.chainId) && !network.devNode, onGivenUp)
    })
    const count = createCounters(services)

    const refuseWrong: RefuseWrong = (result, cause, { context: { request, target }, origin: { requestId } }) => {
      const failure = refuseWrongResult(result, cause)
      count(target.name, 'refused')
      log.warn({ requestId, upstream: target.name, method: request.method, cause: failure.cause }, 'upstream returned a wrong result')
      releaseResult(result)
      return failure
    }

    const headers = new TrustedHeaders(agree, services)
    const states = new StateAnswers(headers, refuseWrong, services)
    const blocks = new ProvenBlocks({
      refuseWrong,
      findBroken: (findings, upstream) => findings.find(finding => rules.decide(finding, upstream) === 'refuse'),
    })
    const feedHeaders = new FeedHeaders(header => blocks.recordHeader(header), services)
    const logs = new LogAnswers({ headers, blocks, refuseWrong, maxBlocks, maxProofBytes, onUse: () => feedHeaders.use() }, services)
    const history = new HistoryAnswers({ agree, headers, blocks, refuseWrong }, services)
    /** By name, the methods of which something is proven. */
    const provable = new Map<string, ProvenMethod>(
      provableMethods.flatMap(name => {
        const method = methods.get(name)
        const answers: ProvenMethod['answers'] = name === 'eth_getLogs' ? logs : provableHistory.includes(name) ? history : states
        return method === undefined ? [] : [[name, { method, answers }] as const]
      }),
    )
    const explainPolicy = (name: string): string => {
      const policy = policies.of(name)
      if (policy === 'proof' && provable.has(name)) return 'answered with what is proven by a header that upstreams agree on'
      if (quorums.get(policy) !== undefined) return `answered where ${policy} upstreams, which are asked at once, have the same answer`
      if (policy === 'off' || checkedOf(name) === undefined) return 'results are not checked'
      return `results of up to ${maxBytes} bytes are checked; another node is asked in place of one that is wrong`
    }

    /** The result with what it was verified by, or the failure in its place. */
    const check = (result: Result, { method, ...checks }: CheckedMethod, call: VerifiedCall): Reply => {
      const { request, target } = call.context
      if (result.result.byteLength > maxBytes || isPending(method, request)) {
        count(target.name, 'unchecked')
        return copyReply(result, { verified: 'none' })
      }
      const decisions = findingsOf(result, checks, request, hash => blocks.knownHeader(hash)).map(finding => ({
        finding,
        decision: rules.decide(finding, target.name),
      }))
      const broken = decisions.find(({ decision }) => decision === 'refuse')
      if (broken !== undefined) return refuseWrong(result, `not so: ${broken.finding.rule}`, call)
      const isPassed = decisions.some(({ decision }) => decision === 'pass')
      count(target.name, isPassed ? 'passed' : 'unchecked')
      return copyReply(result, { verified: isPassed ? 'check' : 'none' })
    }

    /** Undefined where nothing is proven of this call. */
    const prove = async (call: VerifiedCall, next: NextPlugin): Promise<Reply | undefined> => {
      const { request, target } = call.context
      const proven = provable.get(request.method)
      if (proven === undefined || isPending(proven.method, request)) return undefined
      const reply = await proven.answers.answer(call, proven.method, next)
      if (reply === undefined || isFailure(reply)) return reply
      const { verified = 'proof' } = reply
      if (verified === 'proof') count(target.name, 'proven')
      return copyReply(reply, { verified })
    }

    const quorumAnswers = new QuorumAnswers({ headers, refuseWrong, maxBytes, prove }, services)
    /** Undefined for what is not compared: a call about the pending block, or one that is for one upstream alone. */
    const compare = async (call: VerifiedCall, quorum: Quorum, next: NextPlugin): Promise<Reply | undefined> => {
      const { request, target } = call.context
      const method = methods.get(request.method)
      if (method === undefined || !isComparable(method) || isPending(method, request)) return undefined
      const reply = await quorumAnswers.answer(call, method, quorum, next)
      if (!isFailure(reply) && reply.verified === 'quorum') count(reply.upstream ?? target.name, 'agreed')
      return reply
    }

    return {
      async handle(call, next) {
        const { method } = call.context.request
        const policy = call.variant ?? policies.of(method)
        const quorum = quorums.get(policy)
        const verified = policy === 'proof' ? await prove(call, next) : quorum && (await compare(call, quorum, next))
        if (verified !== undefined) return verified
        const reply = await next(call)
        if (isFailure(reply)) return reply
        const checked = policy === 'off' || isJsonNull(reply.result) ? undefined : checkedOf(method)
        return checked === undefined ? copyReply(reply, { verified: 'none' }) : check(reply, checked, call)
      },
      explain: ({ method }) => ({ text: [explainPolicy(method)] }),
      stop: async () => feedHeaders.stop(),
    }
  },
})

/** A quorum sends a call to several upstreams. */
const isComparable = ({ idempotent, retryable, stateful }: Method): boolean => idempotent && retryable !== false && stateful !== true

interface ProvenMethod {
  readonly method: Method
  /** Undefined: nothing is proven of this call, which is checked. */
  readonly answers: { answer(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | undefined> }
}

interface CheckedMethod {
  readonly method: Method
  readonly check: (value: Json, params: readonly Json[]) => readonly Finding[]
  readonly headerCheck: (typeof headerChecks)[keyof typeof headerChecks] | undefined
}

const isHeaderChecked = (kind: Method['result']): kind is keyof typeof headerChecks =>
  kind !== undefined && Object.hasOwn(headerChecks, kind)

const isChecked = (kind: string): kind is keyof typeof resultChecks => Object.hasOwn(resultChecks, kind)

/** Ethereum, Sepolia, Holesky and Hoodi: all rules are known to hold. */
const ethereumChainIds: ReadonlySet<number> = new Set([1, 11_155_111, 17_000, 560_048])

/** A block that is being built has no hash, or one that changes. */
const isPending = (method: Method, { params }: Request): boolean => {
  const blocks = blockSelectorOf(method, params)
  return blocks !== undefined && !('hash' in blocks) && (blocks.from === 'pending' || blocks.to === 'pending')
}

/** None where the result is not what the method returns: the plugin `upstream` has checked its type. */
const findingsOf = (
  { result }: Result,
  { check, headerCheck }: Omit<CheckedMethod, 'method'>,
  { params }: Request,
  knownHeader: (hash: string) => TrustedHeader | undefined,
): readonly Finding[] => {
  try {
    const value: Json = JSON.parse(toBuffer(result).toString())
    return headerCheck === undefined ? check(value, params) : [...check(value, params), ...headerCheck(value, knownHeader)]
  } catch (error) {
    if (error instanceof MalformedMember) return []
    throw error
  }
}

type Outcome = 'proven' | 'agreed' | 'passed' | 'refused' | 'unchecked'

/** Series are opened once: upstreams are few. */
const createCounters = ({ metrics }: Services) => {
  const series = new Map<string, Counter>()
  return (upstream: string, outcome: Outcome): void =>
    getOrCreate(series, `${outcome} ${upstream}`, () => metrics.counter(metricDefinitions.verifiedResults, { upstream, outcome })).add()
}
