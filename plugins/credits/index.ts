import { assertKnownMethods, copyReply, definePlugin, directStage, refuse, withContext } from '../../src/plugin/plugin.ts'
import type {
  Call,
  CallContext,
  DirectHandler,
  Explanation,
  Failure,
  KeyChargeResult,
  Ledger,
  MaybePromise,
  OutageGrace,
  Reply,
  Services,
} from '../../src/plugin/plugin.ts'
import { FailureLimit } from './failure-limit.ts'
import { chargeKeyAndAccount } from './key-limit.ts'
import type { SuccessfulCharge } from './key-limit.ts'
import { count, refundBug, settle } from './refund.ts'
import type { ChargedCall, ChargedContext } from './refund.ts'

/** Contract 1.4 and 8: each call costs credits of the account's day. */
export default definePlugin({
  name: 'credits',
  summary: "Charges the cost of the method to the account's daily credits, and refunds it when nothing was delivered.",
  whenMissing: 'callers may make any number of calls, free of charge',
  options: {
    type: 'object',
    properties: {
      costs: {
        type: 'object',
        additionalProperties: { type: 'integer', minimum: 0 },
        default: {},
        description: 'Credits per call by method, in place of `cost` in the method table.',
        examples: [{ eth_call: 40 }],
      },
      onStoreOutage: {
        type: 'string',
        enum: ['closed', 'grace', 'open'],
        default: 'closed',
        description:
          'While the store is unreachable and the leased credits are used up: closed refuses calls (503), grace grants `grace` ' +
          'credits, open grants any number for 5 minutes. Granted credits are charged when the store is reachable again.',
      },
      grace: {
        type: 'integer',
        minimum: 1,
        description: 'With `onStoreOutage: grace`: credits granted in one outage, per process and account.',
        examples: [10_000],
      },
    },
  },
  reads: ['request', 'key', 'account'],
  writes: ['account'],
  once: true,
  check({ onStoreOutage, grace }, report) {
    if (onStoreOutage === 'grace' && grace === undefined)
      report([], '`onStoreOutage: grace` requires `grace`: the credits granted in one outage, for example 10000')
    if (onStoreOutage !== 'grace' && grace !== undefined)
      report(['grace'], `\`grace\` applies only with \`onStoreOutage: grace\`, not with \`onStoreOutage: ${onStoreOutage}\``)
  },
  create({ costs, onStoreOutage, grace = 0 }, services) {
    const { clock, ledger, methods, singleton } = services
    assertKnownMethods(
      Object.keys(costs).map(method => ({ path: ['costs', method], method })),
      methods,
    )
    const costByMethod = new Map(methods.names.map(name => [name, methods.get(name)?.cost ?? methods.defaultCost]))
    for (const [name, cost] of Object.entries(costs)) costByMethod.set(name, cost)
    const failureLimit = singleton('failure limit', {}, () => new FailureLimit(clock))
    const charge = createCharging(ledger, outageGraceOf(onStoreOutage, grace))
    return directStage({
      handle: createChargingHandler({ charge, costByMethod, failureLimit }, services),
      events: { charge },
      explain: ({ method, creditsLeft }) => explainCharge(costByMethod.get(method) ?? methods.defaultCost, creditsLeft),
      describeMethods: described => described.map(method => ({ ...method, credits: costByMethod.get(method.name) ?? methods.defaultCost })),
    })
  },
})

const explainCharge = (cost: number, left: number | undefined): Explanation => {
  const text = [`charges ${cost} credits; a call that delivers nothing is refunded`]
  if (left === undefined) return { text }
  return { text: [...text, `the account has ${left} credits left today`], ...(left < cost && { ends: 'refused' }) }
}

const outageGraceOf = (onStoreOutage: 'closed' | 'grace' | 'open', credits: number): OutageGrace | undefined => {
  switch (onStoreOutage) {
    case 'closed':
      return undefined
    case 'grace':
      return { maxCredits: credits, maxDurationMs: Infinity }
    case 'open':
      return { maxCredits: Infinity, maxDurationMs: openGraceMs }
  }
}

/** Bounds how long a key that was revoked during the outage is served. */
const openGraceMs = 300_000

type ChargeCredits = (payer: Pick<CallContext, 'account' | 'key'>, credits: number) => MaybePromise<KeyChargeResult>

/** Charges the account, and the key where it has a daily limit of its own. */
const createCharging =
  (ledger: Ledger, grace: OutageGrace | undefined): ChargeCredits =>
  (payer, credits) =>
    payer.key.dailyCredits === undefined ? ledger.charge(payer.account, credits, grace) : chargeKeyAndAccount(ledger, payer, credits, grace)

interface ChargingOptions {
  readonly charge: ChargeCredits
  readonly costByMethod: ReadonlyMap<string, number>
  readonly failureLimit: FailureLimit
}

/** Charges each call before the plugins below run, and refunds what delivered nothing. */
const createChargingHandler =
  (
    { charge, costByMethod, failureLimit }: ChargingOptions,
    { methods: { defaultCost }, network, usage }: Services,
  ): DirectHandler<ChargedContext, 'account'> =>
  (call, next) => {
    const { request, account } = call.context
    const knownCost = costByMethod.get(request.method)
    const cost = knownCost ?? defaultCost
    const recentCalls = failureLimit.of(account.id)
    const method = knownCost === undefined ? 'other' : request.method
    const charged: ChargedCall = { call, next, usage, recentCalls, network: network.name, method, cost }
    const { refusedForMs } = recentCalls
    if (refusedForMs !== undefined) return countRefusal(charged, refuse('failing', { retryAfter: Math.ceil(refusedForMs / 1000) }))
    const result = charge(call.context, cost)
    return result instanceof Promise ? result.then(settled => serve(charged, settled)) : serve(charged, result)
  }

/** Runs a call that has been charged, or refuses one that could not be. */
const serve = (charged: ChargedCall, charge: KeyChargeResult): MaybePromise<Reply> => {
  if (charge.kind !== 'charged') return countRefusal(charged, refusalOf(charge))
  const { call, next, recentCalls } = charged
  recentCalls.recordCall()
  try {
    const reply = next(recentCalls.isSingleAttempt ? withSingleAttempt(call) : call)
    return reply instanceof Promise ? settleLater(charged, charge, reply) : settle(charged, charge, reply)
  } catch (bug) {
    return refundBug(charged, charge, bug)
  }
}

const withSingleAttempt = (call: Call<ChargedContext>): Call<ChargedContext> =>
  withContext(call, { account: { ...call.context.account, singleAttempt: true } })

const settleLater = async (charged: ChargedCall, charge: SuccessfulCharge, reply: Promise<Reply>): Promise<Reply> => {
  try {
    return settle(charged, charge, await reply)
  } catch (bug) {
    return refundBug(charged, charge, bug)
  }
}

const countRefusal = (charged: ChargedCall, refusal: Failure): Failure => {
  count(charged, refusal, undefined, 0)
  return refusal
}

const refusalOf = (charge: Exclude<KeyChargeResult, { kind: 'charged' }>): Failure => {
  if (charge.kind === 'storeUnavailable') return storeUnavailable
  const { limit, used, resetAt, quota, isKeyLimit } = charge
  const data = { limit, used, resetAt: new Date(resetAt).toISOString() }
  return copyReply(refuse('spent', { data, ...(isKeyLimit && { message: 'the daily limit of this API key is used up' }) }), { quota })
}

const storeUnavailable = refuse('unavailable', {
  message: 'credits cannot be charged now',
  source: 'gateway',
  fault: 'gateway',
  retryAfter: 2,
})
