import {
  assertKnownMethods,
  copyReply,
  definePlugin,
  isCharged,
  isFailure,
  refuse,
  withContext,
  withCredits,
} from '../../src/plugin/plugin.ts'
import type {
  Call,
  Charge,
  CountedCall,
  Explanation,
  Failure,
  Handler,
  KeyChargeResult,
  OutageGrace,
  RefusalKind,
  Next,
  Reply,
  Usage,
  ChargeResult,
} from '../../src/plugin/plugin.ts'
import { FailureLimit } from './failure-limit.ts'
import type { RecentCalls } from './failure-limit.ts'
import { chargeAccountAndKey } from './key-limit.ts'

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
  create({ costs, onStoreOutage, grace = 0 }, { clock, ledger, methods, network, usage, singleton }) {
    assertKnownMethods(
      Object.keys(costs).map(method => ({ path: ['costs', method], method })),
      methods,
    )
    const costByMethod = new Map(methods.names.map(name => [name, methods.get(name)?.cost ?? methods.defaultCost]))
    for (const [name, cost] of Object.entries(costs)) costByMethod.set(name, cost)
    const outageGrace = outageGraceOf(onStoreOutage, grace)
    const failureLimit = singleton('failure limit', {}, () => new FailureLimit(clock))

    const handle: Handler<ContextKeys, 'account'> = (call, next) => {
      const {
        request: { method },
        account,
      } = call.context
      const knownCost = costByMethod.get(method)
      const cost = knownCost ?? methods.defaultCost
      const recentCalls = failureLimit.of(account.id)
      const countedMethod = knownCost === undefined ? 'other' : method
      const pending: PendingCharge = { usage, recentCalls, network: network.name, method: countedMethod, cost }
      const { refusedForMs } = recentCalls
      if (refusedForMs !== undefined) return Promise.resolve(refuseFailing(pending, call, refusedForMs))
      const charge = chargeAccountAndKey(ledger, call.context, cost, outageGrace)
      return charge instanceof Promise
        ? charge.then(result => serveCharged(result, pending, call, next))
        : serveCharged(charge, pending, call, next)
    }
    return {
      handle,
      events: { charge: (payer, credits) => chargeAccountAndKey(ledger, payer, credits, outageGrace) },
      explain: ({ method, creditsLeft }) => explainCharge(costByMethod.get(method) ?? methods.defaultCost, creditsLeft),
      describeMethods: described => described.map(method => ({ ...method, credits: costByMethod.get(method.name) ?? methods.defaultCost })),
    }
  },
})

const explainCharge = (cost: number, left: number | undefined): Explanation => {
  const text = [`charges ${cost} credits; a call that delivers nothing is refunded`]
  if (left === undefined) return { text }
  return { text: [...text, `the account has ${left} credits left today`], ...(left < cost && { ends: 'refused' }) }
}

/** A call before it is charged. */
interface PendingCharge {
  readonly usage: Usage
  readonly recentCalls: RecentCalls
  readonly network: string
  readonly method: string
  readonly cost: number
}

type ContextKeys = 'request' | 'key' | 'account'
type SuccessfulCharge = Extract<ChargeResult, { kind: 'charged' }>

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

const serveCharged = async (
  charge: KeyChargeResult,
  pending: PendingCharge,
  call: Call<ContextKeys>,
  next: Next<ContextKeys>,
): Promise<Reply> => {
  if (charge.kind !== 'charged') {
    const refusal = refusalOf(charge)
    pending.usage.count(usageRecordOf(pending, call, refusal, undefined, 0))
    return refusal
  }
  pending.recentCalls.recordCall()
  try {
    const reply = await next(pending.recentCalls.isSingleAttempt ? withSingleAttempt(call) : call)
    if (!isCharged(reply)) return refundCharge(charge, pending, call, reply)
    const usageRecord = usageRecordOf(pending, call, reply, charge.day, pending.cost)
    pending.usage.count(usageRecord)
    return withCredits(reply, pending.cost, charge.quota, new RefundableCharge(charge, pending.usage, usageRecord))
  } catch (bug) {
    refundCharge(charge, pending, call, internalError)
    throw bug
  }
}

const internalError = refuse('internal')

/** Refuses the call of an account whose calls fail too often, free of charge. */
const refuseFailing = (pending: PendingCharge, call: Call<ContextKeys>, refusedForMs: number): Failure => {
  const refusal = refuse('failing', { retryAfter: Math.ceil(refusedForMs / 1000) })
  pending.usage.count(usageRecordOf(pending, call, refusal, undefined, 0))
  return refusal
}

const withSingleAttempt = (call: Call<ContextKeys>): Call<ContextKeys> =>
  withContext(call, { account: { ...call.context.account, singleAttempt: true } })

/**
 * A node failed at the call in a way that callers can cause. An outage, which breakers count, comes from `gateway`; a call that
 * joined another in flight caused no request.
 */
const isFreeFailure = (reply: Reply): boolean =>
  isFailure(reply) && reply.fault === 'upstream' && reply.source !== 'gateway' && reply.cache !== 'hit'

const refundCharge = (charge: SuccessfulCharge, pending: PendingCharge, call: Call<ContextKeys>, reply: Reply): Reply => {
  const credits = charge.refund() ? 0 : pending.cost
  if (isFreeFailure(reply)) pending.recentCalls.recordFreeFailure()
  pending.usage.count(usageRecordOf(pending, call, reply, charge.day, credits))
  return withCredits(reply, 0, charge.quota)
}

const usageRecordOf = (
  { network, method }: PendingCharge,
  { context: { account, key } }: Call<ContextKeys>,
  reply: Reply,
  day: number | undefined,
  credits: number,
): CountedCall => ({
  account: account.id,
  key: key.id,
  network,
  method,
  outcome: isFailure(reply) ? reply.kind : 'ok',
  forwarded: reply.source === 'partner',
  day,
  calls: 1,
  credits,
})

/** A counted charge, which the server refunds when it cannot deliver the answer. */
class RefundableCharge implements Charge {
  readonly #charge: SuccessfulCharge
  readonly #usage: Usage
  readonly #usageRecord: CountedCall

  constructor(charge: SuccessfulCharge, usage: Usage, usageRecord: CountedCall) {
    this.#charge = charge
    this.#usage = usage
    this.#usageRecord = usageRecord
  }

  refund(outcome: RefusalKind): void {
    if (!this.#charge.refund()) return
    this.#usage.count({ ...this.#usageRecord, calls: -1, credits: -this.#usageRecord.credits })
    this.#usage.count({ ...this.#usageRecord, outcome, credits: 0 })
  }
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
