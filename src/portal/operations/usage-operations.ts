import { groupings, readBalance, removedPlanLabel } from '../../services/account-reports.ts'
import type { Balance, Grouping, UsageTotals } from '../../services/account-reports.ts'
import { effectivePlan } from '../../services/accounts/effective-plan.ts'
import { hourRetentionDays } from '../../store/usage-store.ts'
import { formatAlternatives } from '../../util/did-you-mean.ts'
import { invalidField } from '../api-errors.ts'
import { balanceProperties, count, listOf, numberOrNull, object, schemaRef, text } from '../openapi.ts'
import type { CallCounts } from '../queries/page-queries.ts'
import { accountId, findAccount } from './account-operations.ts'
import { defineOperation } from './operation.ts'

const milliseconds = { ...numberOrNull, description: 'Of successful calls, in ms; null without any.' }
const sums = { calls: count, failed: count, forwarded: count, credits: count, p50Ms: milliseconds, p95Ms: milliseconds }
const date = { type: 'string', format: 'date' }

/** What the operation returns, by the name in the OpenAPI document. */
export const usageSchemas = {
  AccountBalance: object({ account: text, plan: text, ...balanceProperties }),
  AccountCalls: object({
    account: text,
    from: { ...date, description: 'The first day, UTC.' },
    to: { ...date, description: 'The last day.' },
    by: { type: 'string', enum: groupings },
    groups: listOf(object({ name: text, ...sums })),
    total: object(sums),
  }),
} as const

/** More days than any retention keeps; a bound for the query. */
const maxDays = 3_660

type AccountBalance = { readonly account: string; readonly plan: string } & Balance
type AccountCalls = { readonly account: string; readonly by: Grouping } & CallCounts

export const usageOperations = [
  defineOperation({
    name: 'usage',
    method: 'get',
    path: '/accounts/{id}/usage',
    summary: 'The credits of an account of today; with `by`, its calls by one field.',
    input: {
      type: 'object',
      properties: {
        id: accountId,
        by: { type: 'string', enum: groupings, description: `Counts calls by one field: ${formatAlternatives(groupings)}.` },
        days: {
          type: 'integer',
          minimum: 1,
          maximum: maxDays,
          description: `With \`by\`: the last N days (UTC) up to today, from 1 to ${maxDays}; 1 if absent. Hours are kept for ${hourRetentionDays} days.`,
        },
      },
      required: ['id'],
    },
    output: { oneOf: [schemaRef('AccountBalance'), schemaRef('AccountCalls')] },
    check({ by, days }) {
      if (by === undefined && days !== undefined) throw invalidField('days', 'requires `by`')
    },
    async run({ id, by, days = 1 }, services): Promise<AccountBalance | AccountCalls> {
      const account = await findAccount(services, id)
      if (by !== undefined) return { account: account.name, by, ...(await services.queries.callCounts({ account: account.id, by, days })) }
      const limit = effectivePlan(account, services.plans)?.dailyCredits ?? null
      return { account: account.name, plan: account.plan, ...(await readBalance(services.store, account.id, limit)) }
    },
    command: {
      positionals: { id: 'ACCOUNT' },
      flags: { by: { placeholder: 'FIELD' }, days: { of: 'by' } },
      csv: usage =>
        'by' in usage
          ? { columns: [usage.by, ...Object.keys(sums)], rows: usage.groups.map(toCells) }
          : { columns: Object.keys(usage), rows: [Object.values(usage).map(value => String(value ?? ''))] },
      text(usage) {
        if (!('by' in usage))
          return [{ fields: { ...usage, limit: usage.limit ?? removedPlanLabel, left: usage.left ?? removedPlanLabel } }]
        const { account, from, to, by, groups, total } = usage
        if (groups.length === 0) return [`no calls of ${account} ${from === to ? `on ${to}` : `from ${from} to ${to}`}`]
        const columns = [by, ...Object.keys(sums)].map(title => title.toUpperCase())
        return [{ columns, rows: [...groups, { name: 'total', ...total }].map(toCells) }]
      },
    },
  }),
]

const toCells = ({ name, calls, failed, forwarded, credits, p50Ms, p95Ms }: UsageTotals): readonly string[] => [
  name,
  ...[calls, failed, forwarded, credits, p50Ms ?? '', p95Ms ?? ''].map(String),
]
