import { isCharged, isFailure, refuse, withCredits } from '../../src/plugin/plugin.ts'
import type { Call, Charge, CountedCall, DirectNext, RefusalKind, Reply, Services } from '../../src/plugin/plugin.ts'
import type { RecentCalls } from './failure-limit.ts'
import type { SuccessfulCharge } from './key-limit.ts'

export type ChargedContext = 'request' | 'key' | 'account'

/** A call that is charged, and what it is counted with. */
export interface ChargedCall {
  readonly call: Call<ChargedContext>
  readonly next: DirectNext<ChargedContext>
  readonly usage: Services['usage']
  readonly recentCalls: RecentCalls
  readonly network: string
  /** The method that the call is counted under. */
  readonly method: string
  readonly cost: number
}

/** Keeps the charge, or refunds it. */
export const settle = (charged: ChargedCall, charge: SuccessfulCharge, reply: Reply): Reply => {
  if (!isCharged(reply)) return refund(charged, charge, reply)
  const { cost, usage } = charged
  const usageRecord = count(charged, reply, charge.day, cost)
  return withCredits(reply, cost, charge.quota, new RefundableCharge(charge, usage, usageRecord))
}

export const refundBug = (charged: ChargedCall, charge: SuccessfulCharge, bug: unknown): never => {
  refund(charged, charge, internalError)
  throw bug
}

const internalError = refuse('internal')

const refund = (charged: ChargedCall, charge: SuccessfulCharge, reply: Reply): Reply => {
  const credits = charge.refund() ? 0 : charged.cost
  if (isFreeFailure(reply)) charged.recentCalls.recordFreeFailure()
  count(charged, reply, charge.day, credits)
  return withCredits(reply, 0, charge.quota)
}

/**
 * A node failed at the call in a way that callers can cause. An outage, which breakers count, comes from `gateway`; a call that
 * joined another in flight caused no request.
 */
const isFreeFailure = (reply: Reply): boolean =>
  isFailure(reply) && reply.fault === 'upstream' && reply.source !== 'gateway' && reply.cache !== 'hit'

/** Counts the call in the usage of its account. */
export const count = (
  { call, usage, network, method }: ChargedCall,
  reply: Reply,
  day: number | undefined,
  credits: number,
): CountedCall => {
  const { account, key } = call.context
  const usageRecord: CountedCall = {
    account: account.id,
    key: key.id,
    network,
    method,
    outcome: isFailure(reply) ? reply.kind : 'ok',
    forwarded: reply.source === 'partner',
    day,
    calls: 1,
    credits,
  }
  usage.count(usageRecord)
  return usageRecord
}

/** A counted charge, which the server refunds when it cannot deliver the answer. */
class RefundableCharge implements Charge {
  readonly #charge: SuccessfulCharge
  readonly #usage: Services['usage']
  readonly #usageRecord: CountedCall

  constructor(charge: SuccessfulCharge, usage: Services['usage'], usageRecord: CountedCall) {
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
