import { withCredits, isCharged, refuseUnknownMethod } from '../../src/plugin/internal.ts'
import type {
  CallRecord,
  Charge,
  DirectHandler,
  DirectNext,
  KeyChargeResult,
  Ledger,
  MaybePromise,
  OutageGrace,
  RefusalKind,
} from '../../src/plugin/internal.ts'
import { copyReply, isFailure, refuse, withContext } from '../../src/plugin/plugin.ts'
import type { Call, CallContext, Failure, Method, Reply, Services } from '../../src/plugin/plugin.ts'
import type { FailureLimit, RecentCalls } from './failure-limit.ts'
import { chargeKeyAndAccount } from './key-limit.ts'
import type { SuccessfulCharge } from './key-limit.ts'

type ChargeCredits = (payer: Pick<CallContext, 'account' | 'key'>, credits: number) => MaybePromise<KeyChargeResult>

/** Charges the account, and the key where it has a daily limit of its own. */
export const createCharging =
  (ledger: Ledger, grace: OutageGrace | undefined): ChargeCredits =>
  (payer, credits) =>
    payer.key.dailyCredits === undefined ? ledger.charge(payer.account, credits, grace) : chargeKeyAndAccount(ledger, payer, credits, grace)

type ChargedContext = 'request' | 'key' | 'account'

/** A call that is charged, and what it is counted with. */
interface ChargedCall {
  readonly call: Call<ChargedContext>
  readonly next: DirectNext<ChargedContext>
  readonly services: Pick<Services, 'usage' | 'network' | 'priceOf'>
  readonly recentCalls: RecentCalls
  /** Undefined for a method that is not in the table. */
  readonly method: Method | undefined
  readonly cost: number
}

interface ChargingOptions {
  readonly charge: ChargeCredits
  readonly failureLimit: FailureLimit
}

/** Charges each call before the plugins below run, and refunds what delivered nothing. */
export const createChargingHandler =
  ({ charge, failureLimit }: ChargingOptions, services: Services): DirectHandler<ChargedContext, 'account'> =>
  (call, next) => {
    const { request, account } = call.context
    const cost = services.priceOf(call)
    const recentCalls = failureLimit.of(account.id)
    const method = services.methods.get(request.method)
    const charged: ChargedCall = { call, next, services, recentCalls, method, cost }
    const { refusedForMs } = recentCalls
    if (refusedForMs !== undefined) return recordRefusal(charged, refuse('failing', { retryAfter: Math.ceil(refusedForMs / 1000) }))
    if (method !== undefined && recentCalls.missingMethods.refuses(method.name))
      return recordRefusal(charged, refuseUnknownMethod(method.name))
    const result = charge(call.context, cost)
    return result instanceof Promise ? result.then(settled => serve(charged, settled)) : serve(charged, result)
  }

/** Runs a call that has been charged, or refuses one that could not be. */
const serve = (charged: ChargedCall, charge: KeyChargeResult): MaybePromise<Reply> => {
  if (charge.kind !== 'charged') return recordRefusal(charged, refusalOf(charge))
  const { call, next, recentCalls } = charged
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

/** Keeps the charge, or refunds it. */
const settle = (charged: ChargedCall, charge: SuccessfulCharge, reply: Reply): Reply => {
  if (!isCharged(reply)) return refund(charged, charge, reply)
  const { services, method, recentCalls } = charged
  const cost = settlePrice(charged, charge, reply)
  if (method !== undefined) recentCalls.missingMethods.forget(method.name)
  if (cost > 0) recentCalls.recordCall()
  const recorded = record(charged, reply, charge.day, cost)
  return withCredits(reply, cost, charge.quota, new RecordedCharge(charge, services.usage, recorded))
}

/** What a result was verified by may cost less than what was asked for: the difference is refunded. */
const settlePrice = ({ call, cost, services }: ChargedCall, charge: SuccessfulCharge, reply: Reply): number => {
  if (isFailure(reply) || reply.verified === undefined) return cost
  const price = services.priceOf(call, reply)
  return price < cost && charge.refund(cost - price) ? price : cost
}

const refundBug = (charged: ChargedCall, charge: SuccessfulCharge, bug: unknown): never => {
  refund(charged, charge, internalError)
  throw bug
}

const internalError = refuse('internal')

const refund = (charged: ChargedCall, charge: SuccessfulCharge, reply: Reply): Reply => {
  const credits = charge.refund() ? 0 : charged.cost
  if (isFreeFailure(reply)) recordFreeFailure(charged, reply)
  record(charged, reply, charge.day, credits)
  return withCredits(reply, 0, charge.quota)
}

/**
 * A node failed at the call in a way that callers can cause. An outage, which breakers count, comes from `gateway`; a partner gets calls in
 * an outage only, and what it fails at is no work of the nodes; a call that joined another in flight caused no request.
 */
const isFreeFailure = (reply: Reply): reply is Failure =>
  isFailure(reply) && reply.fault === 'upstream' && reply.source === 'node' && reply.cache !== 'hit'

/** Libraries ask for some methods again and again, although they do without them: where nodes lack a method of the table, that is no failure. */
const recordFreeFailure = ({ method, recentCalls }: ChargedCall, { category }: Failure): void => {
  if (category === 'methodNotFound' && method !== undefined) recentCalls.missingMethods.record(method.name)
  else recentCalls.recordFreeFailure()
}

const recordRefusal = (charged: ChargedCall, refusal: Failure): Failure => {
  record(charged, refusal, undefined, 0)
  return refusal
}

const refusalOf = (charge: Exclude<KeyChargeResult, { kind: 'charged' }>): Failure => {
  if (charge.kind === 'storeUnavailable') return storeUnavailable
  const { limit, used, resetAt, quota, isKeyLimit } = charge
  const data = { limit, used, resetAt: new Date(resetAt).toISOString() }
  return copyReply(refuse('spent', { data, ...(isKeyLimit && { message: 'the daily limit of this API key is used up' }) }), { quota })
}

const storeUnavailable = refuse('unavailable', {
  message: 'credits cannot be charged now; retry later',
  source: 'gateway',
  fault: 'gateway',
  retryAfter: 2,
})

/** Records the call in the usage of its account. */
const record = (
  { call, services: { usage, network }, method }: ChargedCall,
  reply: Reply,
  day: number | undefined,
  credits: number,
): CallRecord => usage.record({ call, reply, method, network: network.name, day, credits })

/** A recorded charge, for the server when it cannot deliver the answer. */
class RecordedCharge implements Charge {
  readonly #charge: SuccessfulCharge
  readonly #usage: Services['usage']
  readonly #recorded: CallRecord
  #isReplaced = false

  constructor(charge: SuccessfulCharge, usage: Services['usage'], recorded: CallRecord) {
    this.#charge = charge
    this.#usage = usage
    this.#recorded = recorded
  }

  /** Credits of a day that is over stay used. */
  refund(outcome: RefusalKind): void {
    if (!this.#isReplaced) this.#record(outcome, this.#charge.refund() ? 0 : this.#recorded.counted.credits)
  }

  keep(outcome: RefusalKind): void {
    if (!this.#isReplaced) this.#record(outcome, this.#recorded.counted.credits)
  }

  #record(outcome: RefusalKind, credits: number): void {
    this.#isReplaced = true
    this.#usage.recordUndelivered(this.#recorded, outcome, credits)
  }
}
