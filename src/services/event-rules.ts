import type { CallContext, Key, Origin } from '../plugin/call.ts'
import type { Failure, Verification } from '../plugin/reply.ts'
import type { MaybePromise } from '../util/async.ts'
import type { FeedBlock } from './chain-heads/index.ts'
import type { ChargeResult } from './ledger/index.ts'

/** The result of a charge, and whose day it is about where that is not the account's. */
export type KeyChargeResult = ChargeResult & { readonly isKeyLimit?: true }

/** Rules about events that a WebSocket is sent besides the responses to its calls. */
export interface EventRules {
  /** Why the key, as it is now, may not have events any more. */
  refuse(key: Key, origin: Origin): Failure | undefined
  /** Charges so many credits for events; undefined where events cost nothing. */
  charge(payer: Pick<CallContext, 'account' | 'key'>, credits: number): MaybePromise<KeyChargeResult | undefined>
  /** Credits for each KiB of the messages of a subscription of this kind, as eth_subscribe names it. */
  costOf(kind: string): number
  /** The logs of a block as subscribers get them, as JSON text: those of the feed, or what is verified of them. Undefined where that cannot be told now. */
  verifyLogs(block: FeedBlock): MaybePromise<string | undefined>
  /** What verifyLogs() verifies logs by: `none` where it returns those of the feed; undefined where no plugin verifies results. */
  logsVerifiedBy(): Verification | undefined
  /** What a KiB of events of logs costs, where the method table says `credits`. */
  priceOfLogs(credits: number): number
}

/** The rules that `current` returns when they are asked. */
export const currentEventRules = (current: () => EventRules): EventRules => ({
  refuse: (key, origin) => current().refuse(key, origin),
  charge: (payer, credits) => current().charge(payer, credits),
  costOf: kind => current().costOf(kind),
  verifyLogs: block => current().verifyLogs(block),
  logsVerifiedBy: () => current().logsVerifiedBy(),
  priceOfLogs: credits => current().priceOfLogs(credits),
})

/** The rules of all stages of a pipeline: each may refuse, and have a price of logs; the first that has another rule decides. */
export const composeEventRules = (rules: readonly Partial<EventRules>[]): EventRules => {
  const charging = rules.find(({ charge }) => charge !== undefined)
  const pricing = rules.find(({ costOf }) => costOf !== undefined)
  const verifying = rules.find(({ verifyLogs }) => verifyLogs !== undefined)
  const refusals = rules.flatMap(({ refuse }) => refuse ?? [])
  return {
    refuse(key, origin) {
      for (const refuse of refusals) {
        const failure = refuse(key, origin)
        if (failure !== undefined) return failure
      }
      return undefined
    },
    charge: (payer, credits) => charging?.charge?.(payer, credits),
    costOf: kind => pricing?.costOf?.(kind) ?? 0,
    logsVerifiedBy: () => rules.find(({ logsVerifiedBy }) => logsVerifiedBy !== undefined)?.logsVerifiedBy?.(),
    priceOfLogs: credits => rules.reduce((price, { priceOfLogs }) => priceOfLogs?.(price) ?? price, credits),
    verifyLogs: block => (verifying?.verifyLogs === undefined ? block.json : verifying.verifyLogs(block)),
  }
}
