import type { Plan } from '../../plugin/call.ts'
import type { AccountRow } from '../../store/store.ts'

/** A plan, with what the dashboard says of it. */
interface ConfiguredPlan extends Plan {
  /** To accounts that have another one. */
  readonly offered?: boolean
  /** In words. */
  readonly price?: string
  /** Where an account gets it, with {account} for its id. */
  readonly url?: string
}

/** Those of gateway.yaml, by name. */
export type Plans = Readonly<Record<string, ConfiguredPlan>>

/** The account's plan, with the credits of the account's own if it has such. Undefined when gateway.yaml has no such plan. */
export const effectivePlan = ({ plan: name, credits }: Pick<AccountRow, 'plan' | 'credits'>, plans: Plans): ConfiguredPlan | undefined => {
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined
  return plan && credits !== undefined ? { ...plan, dailyCredits: credits } : plan
}
