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
import { definition } from './definition.ts'
import { FeedLogs } from './feed-logs.ts'
import { proofTimeout, quorumTimeout, withinMaxTime } from './max-time.ts'
import { VerifyCounters } from './metrics.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import { answeredBy, quorumOf, refusedPolicies, toPolicies } from './policies.ts'
import type { Policy, Quorum } from './policies.ts'
import { Proofs } from './proofs.ts'
import { provableMethods, whyUnprovable } from './provable-methods.ts'
import { QuorumAnswers } from './quorum-answers.ts'
import { WorkTurns } from './work-turns.ts'
import { WrongResults } from './wrong-results.ts'

/** Of a filter of logs it has those of the feed. */
const filterChanges = 'eth_getFilterChanges'

/**
 * Refuses answers of nodes that contradict themselves, or their request: another node is asked. Of the state, it answers what is proven by the headers
 * that nodes agree on, where the policy is `proof`.
 */
export default definePlugin({
  ...definition,
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
      variant === 'off' ? variant : resolvePolicy(method, variant === undefined ? policies.of(method) : policies.ofVariant(variant))

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
          const factor = factorOf(method, policies.ofCall(method, key, headers))
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
      events: areLogsProven
        ? {
            verifyLogs: block => feedLogs.of(block),
            logsVerifiedBy: () => (beacon?.otherwise === 'agree' ? 'quorum' : 'proof'),
            priceOfLogs: credits => credits * factors.proof,
          }
        : { logsVerifiedBy: () => 'none' },
      start() {
        if (beacon !== undefined) beaconHeads?.start(beacon.otherwise)
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
