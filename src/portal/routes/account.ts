import { refusals } from '../../plugin/error-table.ts'
import type { RefusalKind } from '../../plugin/error-table.ts'
import { readBalance } from '../../services/account-reports.ts'
import type { Balance } from '../../services/account-reports.ts'
import { accountState } from '../../services/accounts/account-state.ts'
import { effectivePlan } from '../../services/accounts/effective-plan.ts'
import type { Plans } from '../../services/accounts/effective-plan.ts'
import { hourMs, hoursPerDay, isoTime, isoTimeOrNull } from '../../util/dates.ts'
import { schemaRef } from '../response-schemas.ts'
import { accountOf } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'

/** Of the account, of its credits, and of nodes. */
const refusalKinds = ['key', 'spent', 'unavailable'] as const satisfies readonly RefusalKind[]

type RefusalsJson = { readonly [Kind in (typeof refusalKinds)[number]]: { readonly status: number; readonly code: number } }

const refusalsJson = Object.fromEntries(
  refusalKinds.map(kind => [kind, { status: refusals[kind].status, code: refusals[kind].code }]),
) as RefusalsJson // of these kinds

/** What an account gets with a plan; without credits when the plan no longer exists. */
const planJson = (account: string, name: string, plan: ReturnType<typeof effectivePlan>) => {
  const { dailyCredits = null, forwarding = false, rate = null, burst = null, price = null, url } = plan ?? {}
  return { name, dailyCredits, forwarding, rate, burst, price, url: urlFor(account, url) }
}

export type PlanJson = ReturnType<typeof planJson>

const urlFor = (account: string, url: string | undefined): string | null =>
  url?.replaceAll('{account}', encodeURIComponent(account)) ?? null

/** Those that the operator offers to the account in place of its own, by their credits. */
const offersBeside = (account: string, own: string, plans: Plans): readonly PlanJson[] =>
  Object.values(plans)
    .filter(({ name, offered }) => offered === true && name !== own)
    .sort((a, b) => a.dailyCredits - b.dailyCredits)
    .map(plan => planJson(account, plan.name, plan))

/** The credits of an account now, and its calls of a day: all that the page Overview shows. It is read where calls are served. */
export const readAccountReport = async (services: Pick<PortalServices, 'store' | 'plans' | 'clock' | 'billingUrl'>, accountId: string) => {
  const { store, plans, clock, billingUrl } = services
  const row = await accountOf(services, accountId)
  const { id, name, plan: planName, credits } = row
  const plan = effectivePlan({ plan: planName, ...(credits !== undefined && { credits }) }, plans)
  const balance = await readBalance(store, id, plan?.dailyCredits ?? null)
  const hours = await readHours(services, id)
  const creditsPerHour = creditsOfLastHour(hours, clock.now())
  return {
    account: { id, name },
    plan: planJson(id, planName, plan),
    hasOwnCredits: credits !== undefined,
    offeredPlans: offersBeside(id, planName, plans),
    billingUrl: urlFor(id, billingUrl),
    balance,
    state: accountState(row),
    suspended: isoTimeOrNull(row.suspended),
    suspensionReason: row.suspensionReason ?? null,
    deleteAt: isoTimeOrNull(row.deleteAt),
    hours,
    creditsPerHour,
    runsOutAt: projectRunOut(balance, creditsPerHour, clock.now()),
    refusals: refusalsJson,
    now: isoTime(clock.now()),
  }
}

export type AccountReport = Awaited<ReturnType<typeof readAccountReport>>

const readHours = async ({ store, clock }: Pick<PortalServices, 'store' | 'clock'>, account: string) => {
  const to = Math.floor(clock.now() / hourMs) + 1
  const totals = new Map((await store.hourTotals(account, to - hoursPerDay, to)).map(total => [total.hour, total]))
  return Array.from({ length: hoursPerDay }, (_, i) => {
    const hour = to - hoursPerDay + i
    const { calls = 0, failed = 0, credits = 0 } = totals.get(hour) ?? {}
    return { start: isoTime(hour * hourMs), calls, failed, credits }
  })
}

/** Usage is counted by the hour: of the hour before, the share is taken that lies within the last 60 minutes. */
const creditsOfLastHour = (hours: Awaited<ReturnType<typeof readHours>>, now: number): number => {
  const [before, current] = hours.slice(-2)
  return Math.round((before?.credits ?? 0) * (1 - (now % hourMs) / hourMs) + (current?.credits ?? 0))
}

const projectRunOut = ({ left, held, resetAt }: Balance, creditsPerHour: number, now: number): string | null => {
  if (left === null || creditsPerHour === 0) return null
  // What gateways hold ready for the next calls is left too.
  const runsOut = now + ((left + held) / creditsPerHour) * hourMs
  return runsOut < Date.parse(resetAt) ? isoTime(runsOut) : null
}

export const accountRoutes = [
  defineRoute({
    method: 'get',
    path: '/account',
    summary: 'The account, its plan, the credits of today, the rate of use, and when the credits will be used up at this rate.',
    role: 'viewer',
    response: schemaRef('Account'),
    handle: ({ person }, services) => readAccountReport(services, person.account),
  }),
]
