import { copyReply, isCharged, isFailure, refuse, withContext, withCredits } from '../../src/plugin/plugin.ts'
import type {
  Call,
  Charge,
  ChargeResult,
  CountedCall,
  DirectNext,
  Failure,
  KeyChargeResult,
  MaybePromise,
  RefusalKind,
  Reply,
  Usage,
} from '../../src/plugin/plugin.ts'
import type { RecentCalls } from './failure-limit.ts'

/** A call before it is charged. */
export interface PendingCharge {
  readonly usage: Usage
  readonly recentCalls: RecentCalls
  readonly network: string
  readonly method: string
  readonly cost: number
}

export type ContextKeys = 'request' | 'key' | 'account'
export type SuccessfulCharge = Extract<ChargeResult, { kind: 'charged' }>

export const serveLater = async (
  charge: Promise<KeyChargeResult>,
  pending: PendingCharge,
  call: Call<ContextKeys>,
  next: DirectNext<ContextKeys>,
): Promise<Reply> => serveCharged(await charge, pending, call, next)

/** Runs a call that has been charged, or refuses one that could not be. */
export const serveCharged = (
  charge: KeyChargeResult,
  pending: PendingCharge,
  call: Call<ContextKeys>,
  next: DirectNext<ContextKeys>,
): MaybePromise<Reply> => {
  if (charge.kind !== 'charged') {
    const refusal = refusalOf(charge)
    pending.usage.count(usageRecordOf(pending, call, refusal, undefined, 0))
    return refusal
  }
  pending.recentCalls.recordCall()
  try {
    const reply = next(pending.recentCalls.isSingleAttempt ? withSingleAttempt(call) : call)
    return reply instanceof Promise ? settleLater(reply, charge, pending, call) : settle(reply, charge, pending, call)
  } catch (bug) {
    return refundBug(bug, charge, pending, call)
  }
}

const settleLater = async (
  reply: Promise<Reply>,
  charge: SuccessfulCharge,
  pending: PendingCharge,
  call: Call<ContextKeys>,
): Promise<Reply> => {
  try {
    return settle(await reply, charge, pending, call)
  } catch (bug) {
    return refundBug(bug, charge, pending, call)
  }
}

/** Keeps the charge, or refunds it. */
const settle = (reply: Reply, charge: SuccessfulCharge, pending: PendingCharge, call: Call<ContextKeys>): Reply => {
  if (!isCharged(reply)) return refundCharge(charge, pending, call, reply)
  const usageRecord = usageRecordOf(pending, call, reply, charge.day, pending.cost)
  pending.usage.count(usageRecord)
  return withCredits(reply, pending.cost, charge.quota, new RefundableCharge(charge, pending.usage, usageRecord))
}

const refundBug = (bug: unknown, charge: SuccessfulCharge, pending: PendingCharge, call: Call<ContextKeys>): never => {
  refundCharge(charge, pending, call, internalError)
  throw bug
}

const internalError = refuse('internal')

/** Refuses the call of an account whose calls fail too often, free of charge. */
export const refuseFailing = (pending: PendingCharge, call: Call<ContextKeys>, refusedForMs: number): Failure => {
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
