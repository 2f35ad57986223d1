import type { Plan } from '../../plugin/call.ts'
import type { AccountRow } from '../../store/store.ts'

/** Those of gateway.yaml, by name. */
export type Plans = Readonly<Record<string, Plan>>

/** The account's plan, with the credits of the account's own if it has such. Undefined when gateway.yaml has no such plan. */
export const effectivePlan = ({ plan: name, credits }: Pick<AccountRow, 'plan' | 'credits'>, plans: Plans): Plan | undefined => {
  const plan = Object.hasOwn(plans, name) ? plans[name] : undefined
  return plan && credits !== undefined ? { ...plan, dailyCredits: credits } : plan
}
