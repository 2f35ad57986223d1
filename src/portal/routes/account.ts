import { readBalance } from '../../services/account-reports.ts'
import type { Balance } from '../../services/account-reports.ts'
import { effectivePlan } from '../../services/accounts/index.ts'
import { hourMs, isoTime } from '../../util/dates.ts'
import { accountOf } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'

/** The credits of an account now. */
export interface AccountReport {
  readonly account: { readonly id: string; readonly name: string }
  readonly plan: { readonly name: string; readonly dailyCredits: number | null; readonly forwarding: boolean }
  readonly balance: Balance
  /** Since when the operator has the calls of the account refused. */
  readonly suspended: string | null
  /** Credits of the last 60 minutes. */
  readonly creditsPerHour: number
  /** When the credits of the day will be used up at this rate; null when they last until the reset. */
  readonly runsOutAt: string | null
  /** The time of the gateway. */
  readonly now: string
}

export const readAccountReport = async (services: PortalServices, accountId: string): Promise<AccountReport> => {
  const { store, plans, clock } = services
  const { id, name, plan: planName, credits, suspended } = await accountOf(services, accountId)
  const plan = effectivePlan({ plan: planName, ...(credits !== undefined && { credits }) }, plans)
  const balance = await readBalance(store, id, plan?.dailyCredits ?? null)
  const creditsPerHour = await readCreditsPerHour(services, id)
  return {
    account: { id, name },
    plan: { name: planName, dailyCredits: plan?.dailyCredits ?? null, forwarding: plan?.forwarding ?? false },
    balance,
    suspended: suspended === undefined ? null : isoTime(suspended),
    creditsPerHour,
    runsOutAt: projectRunOut(balance, creditsPerHour, clock.now()),
    now: isoTime(clock.now()),
  }
}

/** Usage is counted by the hour: of the hour before, the share is taken that lies within the last 60 minutes. */
const readCreditsPerHour = async ({ queries, clock }: PortalServices, account: string): Promise<number> => {
  const now = clock.now()
  const hour = Math.floor(now / hourMs)
  const [before = 0, current = 0] = await queries.creditsByHour({ account, from: hour - 1, to: hour + 1 })
  return Math.round(before * (1 - (now % hourMs) / hourMs) + current)
}

const projectRunOut = ({ left, resetAt }: Balance, creditsPerHour: number, now: number): string | null => {
  if (left === null || creditsPerHour === 0) return null
  const runsOut = now + (left / creditsPerHour) * hourMs
  return runsOut < Date.parse(resetAt) ? isoTime(runsOut) : null
}

export const accountRoutes = [
  defineRoute({
    method: 'get',
    path: '/account',
    summary: 'The account, its plan, the credits of today, the rate of use, and when the credits will be used up at this rate.',
    role: 'viewer',
    response: { $ref: '#/components/schemas/Account' },
    handle: ({ person }, services) => readAccountReport(services, person.account),
  }),
]
