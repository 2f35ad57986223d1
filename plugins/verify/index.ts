import {
  assertKnownMethods,
  copyReply,
  createNameMatcher,
  definePlugin,
  isFailure,
  isJsonNull,
  misconfigured,
  refuse,
  releaseResult,
} from '../../src/plugin/plugin.ts'
import type { CallContext, Failure, Method, Origin, Reply, Result } from '../../src/plugin/plugin.ts'
import { beaconChains } from './beacon/beacon-chain.ts'
import { BeaconHeads } from './beacon/beacon-heads.ts'
import { ChainRules } from './chain-rules.ts'
import { AnswerChecks, isPending } from './checks.ts'
import { FeedLogs } from './feed-logs.ts'
import { proofTimeout, quorumTimeout, withinMaxTime } from './max-time.ts'
import { VerifyCounters } from './metrics.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import { answeredBy, policyPattern, quorumOf, refusedPolicies, toPolicies } from './policies.ts'
import type { Policy, Quorum } from './policies.ts'
import { Proofs } from './proofs.ts'
import { provableMethods, whyUnprovable } from './provable-methods.ts'
import { QuorumAnswers } from './quorum-answers.ts'
import { WorkTurns } from './work-turns.ts'
import { checkUpstreams } from './upstreams-check.ts'
import { WrongResults } from './wrong-results.ts'

const factor = { type: 'string', pattern: '^[0-9]+(\\.[0-9]+)?x$', label: 'a factor such as 2x', default: '1x', examples: ['2x'] } as const

/** Of a filter of logs it has those of the feed. */
const filterChanges = 'eth_getFilterChanges'

/** In lower case. */
const wishHeader = 'tollgate-verify'

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
      beacon: {
        type: 'object',
        properties: {
          url: {
            type: 'string',
            format: 'url',
            pattern: '^[hH][tT][tT][pP][sS]?://',
            label: 'a URL that begins with http:// or https://',
            description: 'URL of the Beacon API of a consensus node, which keeps data for light clients.',
            examples: ['http://beacon.example.com:5052'],
          },
          headers: {
            type: 'object',
            additionalProperties: { type: 'string', format: 'secret' },
            default: {},
            description: 'HTTP headers of each request to this node. Values are secrets.',
            examples: [{ 'X-Api-Key': '${BEACON_KEY}' }],
          },
          checkpoint: {
            type: 'string',
            pattern: '^0x[0-9a-fA-F]{64}$',
            label: 'the root of a beacon block: 0x and 64 hex digits',
            description: 'Root of a finalized beacon block, from a source that you trust: all that follows is proven by it.',
            examples: ['0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'],
          },
          maxCheckpointAge: {
            type: 'string',
            format: 'duration',
            usual: { min: '1d', max: '30d' },
            default: '14d',
            description:
              'An older checkpoint proves nothing: validators who have left since may sign another chain. Counts from the last final block that is known: the checkpoint, or a newer one that the store has from before a restart.',
          },
          otherwise: {
            type: 'string',
            enum: ['refuse', 'agree'],
            default: 'refuse',
            description:
              'What becomes of calls about blocks that the beacon chain says nothing about: newer than the newest signed one, more than 8,191 blocks older, or any while the consensus node does not answer. refuse: -32002. agree: upstreams must agree on the header, as without beacon, and X-Tollgate-Verified says quorum.',
          },
        },
        required: ['url', 'checkpoint'],
        description:
          'For `proof`: the sync committee of the beacon chain says which headers are right, in place of upstreams that agree. For Ethereum, Sepolia and Hoodi.',
      },
      costs: {
        type: 'object',
        properties: {
          proof: { ...factor, description: 'Of calls whose answers are proven.' },
          quorum: { ...factor, description: 'Of calls that a quorum answers.' },
        },
        default: {},
        description: 'Factors by which calls cost more credits, by what their results were verified by.',
        examples: [{ proof: '2x' }],
      },
      readmit: {
        type: 'boolean',
        default: true,
        description:
          'A node that lied about what is proven gets no calls of the class of the method until it has answered right 100 times beside others. false: until operators clear its evidence.',
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
          'Most bytes of receipts and transactions, as blocks have them, that one eth_getLogs with the policy `proof` needs; queries that need more are checked. A full block of Ethereum has up to 1 MiB.',
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
  variesBy: ['request', 'key'],
  /** What was verified by another policy, before a reload or by another gateway, is no answer. */
  vary: ({ request, key }, options, { headers }) => toPolicies(options).ofCall(request.method, key, headers[wishHeader]),
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
  verifies: true,
  checkPipeline: checkUpstreams,
  create(options, services) {
    const { maxBytes, agree, beacon, maxBlocks, maxProofBytes, readmit, costs } = options
    const { methods, log, network, clock } = services
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
    const notProvable = Object.entries(options.methods).flatMap(([name, policy]) => {
      const reasons = provableMethods.filter(createNameMatcher([name])).flatMap(method => whyUnprovable(method, network) ?? [])
      return policy === 'proof' && reasons.length > 0 ? [{ path: ['methods', name], message: reasons[0]! }] : []
    })
    if (notComparable.length + notProvable.length > 0) throw misconfigured([...notComparable, ...notProvable])
    const rules = services.singleton('rules', null, () => {
      const onGivenUp = (rule: string) => log.warn({ rule }, 'rule given up: upstreams break it, and none keeps it')
      return new ChainRules(ethereumChainIds.has(network.chainId) && !network.devNode, onGivenUp)
    })
    const beaconChain = beaconChains.get(network.chainId)
    if (beacon !== undefined && beaconChain === undefined) {
      const known = [...beaconChains.keys()].join(', ')
      throw misconfigured(
        ['beacon'],
        `the beacon chain of chain ${network.chainId} is not known: a light client is for the chains ${known}`,
      )
    }
    const beaconHeads =
      beacon &&
      beaconChain &&
      services.singleton(
        'beacon',
        { ...beacon, otherwise: '' },
        () => new BeaconHeads({ ...beacon, chain: beaconChain, maxCheckpointAgeMs: beacon.maxCheckpointAge }, services),
      )
    const counters = new VerifyCounters(services)
    const wrongResults = new WrongResults({ readmit, rules, counters }, services)
    const { refuse: refuseWrong, confirm: confirmRight, recordIfRight } = wrongResults
    const turns = new WorkTurns()
    const proofs = new Proofs(
      {
        ...{ agree, maxBlocks, maxProofBytes, readmit, rules, counters, refuseWrong, confirmRight, recordIfRight, turns },
        beacon: beacon && beaconHeads && { heads: beaconHeads, otherwise: beacon.otherwise },
      },
      services,
    )
    const { blocks, headers, codes } = proofs
    const feedLogs = new FeedLogs({ headers, blocks, turns }, services)
    const checks = new AnswerChecks(
      { rules, counters, refuseWrong, confirmRight, maxBytes, headers, codes, knownHeader: hash => blocks.knownHeader(hash) },
      services,
    )
    const factors = { proof: toFactor(costs.proof), quorum: toFactor(costs.quorum), check: 1, none: 1 }
    /** Those of filters and subscriptions too, whatever callers ask for. */
    const areLogsProven = policies.of('eth_getLogs') === 'proof'
    /** What nothing proves on this chain is verified as without the header. */
    const resolvePolicy = (method: string, policy: Policy): Policy =>
      policy === 'proof' && !proofs.has(answeredBy(method)) ? policies.of(method) : policy
    const factorOf = (method: string, wanted: Policy): number => {
      if (method === filterChanges) return areLogsProven ? factors.proof : 1
      const policy = resolvePolicy(method, wanted)
      if (policy === 'proof') return proofs.has(answeredBy(method)) ? factors.proof : 1
      return quorums.get(policy) === undefined ? 1 : factors.quorum
    }
    /** As developers read of it; undefined where nothing is verified. */
    const verificationOf = (method: string): Policy | undefined => {
      if (method === filterChanges) return areLogsProven ? 'proof' : undefined
      const name = answeredBy(method)
      const policy = policies.of(name)
      if (quorums.get(policy) !== undefined || (policy === 'proof' && proofs.has(name))) return policy
      return policy !== 'off' && checks.has(name) ? 'check' : undefined
    }
    const explainPolicy = (name: string): string => {
      const policy = policies.of(name)
      if (policy === 'proof' && proofs.has(name))
        return `answered with what is proven by a header that ${beacon === undefined ? 'upstreams agree on' : 'the beacon chain proves'}`
      if (quorums.get(policy) !== undefined) return `answered where ${policy} upstreams, which are asked at once, have the same answer`
      if (policy === 'off' || !checks.has(name)) return 'results are not checked'
      return `results of up to ${maxBytes} bytes are checked; another node is asked in place of one that is wrong`
    }

    const quorumAnswers = new QuorumAnswers({ headers, refuseWrong, maxBytes, prove: (call, next) => proofs.prove(call, next) }, services)
    /** Undefined for what is not compared: a call about the pending block, or one that is for one upstream alone. */
    const compare = async (call: VerifiedCall, quorum: Quorum, next: NextPlugin): Promise<Reply | undefined> => {
      const { request, target } = call.context
      const method = methods.get(request.method)
      if (method === undefined || !isComparable(method) || isPending(method, request)) return undefined
      const reply = await quorumAnswers.answer(call, method, quorum, next)
      if (!isFailure(reply) && reply.verified === 'quorum') counters.count(reply.upstream ?? target.name, 'agreed')
      return reply
    }

    const checkReply = (reply: Reply, call: VerifiedCall): Reply =>
      isFailure(reply) || isJsonNull(reply.result) ? toUnverified(reply) : checks.check(reply, call)

    /** No other node can be asked: what this one proves is right all the same, although it has lied. */
    const proveAlone = (call: VerifiedCall, policy: Policy, next: NextPlugin): Promise<Reply> => {
      const { request, target } = call.context
      if (policy !== 'proof') return Promise.resolve(notTrusted)
      return recordIfRight(target.name, methods.get(request.method)?.class ?? 'other', () => verifyCall(call, policy, next, notTrusted))
    }

    const verifyCall = async (call: VerifiedCall, policy: Policy, next: NextPlugin, unproven?: Failure): Promise<Reply> => {
      if (policy === refusedPolicies.notAllowed || policy === refusedPolicies.unknown) return refusals[policy]
      const quorum = quorums.get(policy)
      if (policy !== 'proof' && quorum === undefined) return checkReply(await next(call), call)
      const failure = quorum === undefined ? proofTimeout(call) : quorumTimeout
      return withinMaxTime(call, { ms: methods.get(call.context.request.method)?.maxTime, clock, failure }, async limited => {
        const verified = quorum === undefined ? await proofs.prove(limited, next) : await compare(limited, quorum, next)
        if (unproven === undefined) return verified ?? checkReply(await next(limited), limited)
        if (verified === undefined || isFailure(verified) || verified.verified === 'proof') return verified ?? unproven
        releaseResult(verified)
        return unproven
      })
    }

    /** Classes of which a method has the policy `proof`. */
    const provenClasses = new Set(
      provableMethods.filter(name => policies.of(name) === 'proof' && proofs.has(name)).map(name => methods.get(name)?.class ?? 'other'),
    )
    let endProving = (): void => undefined

    const policyOf = ({ request: { method } }: Pick<CallContext, 'request'>, variant: string | undefined): Policy =>
      resolvePolicy(method, variant ?? policies.of(method))

    const hasLied = ({ request, target }: Pick<CallContext, 'request' | 'target'>): boolean =>
      services.nodes.trust.isAnyDistrusted && services.nodes.trust.isDistrusted(target.name, methods.get(request.method)?.class ?? 'other')

    return {
      passes: (context, variant) => policyOf(context, variant) === 'off' && !hasLied(context),
      handle(call, next) {
        const policy = policyOf(call.context, call.variant)
        return hasLied(call.context) ? proveAlone(call, policy, next) : verifyCall(call, policy, next)
      },
      // A network whose calls cost the same by each policy asks nothing of each call.
      ...((factors.proof !== 1 || factors.quorum !== 1) && {
        priceOf(credits: number, { request: { method }, key }: CallContext, { headers }: Origin, result?: Result) {
          const factor = factorOf(method, policies.ofCall(method, key, headers[wishHeader]))
          return credits * (result === undefined ? factor : Math.min(factor, factors[result.verified ?? 'none']))
        },
      }),
      describeMethods: described =>
        described.map(method => {
          const { name, eventCredits } = method
          const verification = verificationOf(name)
          const creditsOf = (policy: Policy) => Math.ceil(method.credits * factorOf(name, policy))
          const verifyCredits = { none: creditsOf(policies.wished(name, 'none')), proof: creditsOf(policies.wished(name, 'proof')) }
          return {
            ...method,
            credits: creditsOf(policies.of(name)),
            ...(eventCredits?.['logs'] !== undefined &&
              areLogsProven && { eventCredits: { ...eventCredits, logs: eventCredits['logs'] * factors.proof } }),
            ...(verification !== undefined && { verification }),
            ...(verifyCredits.none !== verifyCredits.proof && { verifyCredits }),
          }
        }),
      explain: ({ method }) => {
        const factor = factorOf(method, policies.of(method))
        const cost = `the call costs ${factor} times as many credits (\`costs\`); the difference is refunded where its result is only checked`
        return { text: [explainPolicy(method), ...(factor === 1 ? [] : [cost])] }
      },
      ...(areLogsProven && {
        events: {
          verifyLogs: (block: Parameters<FeedLogs['of']>[0]) => feedLogs.of(block),
          logsVerifiedBy: () => (beacon?.otherwise === 'agree' ? 'quorum' : 'proof'),
          priceOfLogs: (credits: number) => credits * factors.proof,
        },
      }),
      start() {
        beaconHeads?.start()
        endProving = services.nodes.trust.beginProving(provenClasses)
        return wrongResults.restore(provenClasses)
      },
      async stop() {
        endProving()
        proofs.stop()
        feedLogs.stop()
      },
    }
  },
})

/** Nothing was asked of the node, so that it costs no account anything; the partner may have an answer. */
const notTrusted = refuse('unavailable', {
  source: 'gateway',
  fault: 'upstream',
  cause: 'all upstreams have returned what is proven wrong, and no proof shows this answer',
  retryAfter: 1,
  retryElsewhere: true,
})

const toUnverified = (reply: Reply): Reply => (isFailure(reply) ? reply : copyReply(reply, { verified: 'none' }))

const toFactor = (text: string): number => Number(text.slice(0, -1))

const refusals = {
  [refusedPolicies.notAllowed]: refuse('forbidden', {
    message: 'the header Tollgate-Verify asks for what is not allowed for this API key',
  }),
  [refusedPolicies.unknown]: refuse('invalid', { message: 'invalid request: the header Tollgate-Verify must be none or proof' }),
}

/** A quorum sends a call to several upstreams. */
const isComparable = ({ idempotent, retryable, stateful }: Method): boolean => idempotent && retryable !== false && stateful !== true

/** Ethereum, Sepolia, Holesky and Hoodi: all rules are known to hold. */
const ethereumChainIds: ReadonlySet<number> = new Set([1, 11_155_111, 17_000, 560_048])
