import { groupings, readBalance, removedPlanLabel } from '../../services/account-reports.ts'
import type { Balance, Grouping, UsageTotals } from '../../services/account-reports.ts'
import { failedOutcomes } from '../../services/traffic/figures.ts'
import { effectivePlan } from '../../services/accounts/effective-plan.ts'
import { hourRetentionDays } from '../../store/usage-store.ts'
import { hourMs, hoursPerDay, isoTime } from '../../util/dates.ts'
import { formatAlternatives } from '../../util/did-you-mean.ts'
import { invalidField } from '../api-errors.ts'
import {
  balanceProperties,
  count,
  failedByGateway,
  flag,
  latencyProperties,
  listOf,
  object,
  partialObject,
  schemaRef,
  text,
  time,
} from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { describeOutcome } from '../outcome-advice.ts'
import type { CallCounts } from '../queries/page-queries.ts'
import { dimensions } from '../queries/usage-dimensions.ts'
import { accountId, findAccount } from './account-operations.ts'
import { defineOperation, tableOr } from './operation.ts'

const sums = { calls: count, failed: count, byGateway: failedByGateway, forwarded: count, credits: count, ...latencyProperties } as const
const sumNames = Object.keys(sums) as (keyof typeof sums)[] // of a literal
const date = { type: 'string', format: 'date' } as const

const trafficDimensions = ['account', ...dimensions, 'hour', 'day'] as const

/** What the operations return, by the name in the OpenAPI document. */
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
  Usage: object({
    by: { type: 'string', enum: trafficDimensions },
    from: time,
    groupCount: { ...count, description: 'All groups; `groups` has those that were asked for.' },
    groups: listOf(
      partialObject({ name: text, ...sums, account: { type: 'string', description: 'The name of the account.' } }, ['name', ...sumNames]),
    ),
    total: { ...object(sums), description: 'Of all groups.' },
  }),
  ErrorReport: object({
    from: time,
    groups: listOf(
      object({
        network: text,
        outcome: { ...text, description: 'The kind of the failure.' },
        code: { type: ['integer', 'null'], description: 'Null where nodes have answered with their own.' },
        message: text,
        byGateway: { ...flag, description: 'By the fault of nodes or of the gateway, rather than of the caller.' },
        calls: count,
        callsOfNetwork: { ...count, description: 'All calls of the network, failed or not.' },
        accounts: { ...count, description: 'How many accounts made them.' },
        firstHour: {
          ...time,
          description: `When the hour of the first of them began; of what is older than ${hourRetentionDays} days, the day.`,
        },
        lastHour: { ...time, description: 'The same of the last of them.' },
        most: {
          ...object({ account: text, name: { ...text, description: 'Empty when the account no longer exists.' }, calls: count }),
          description: 'The account with the most of them, by its id.',
        },
        methods: { ...listOf(object({ method: text, calls: count })), description: 'The methods with the most of them: five at most.' },
        methodCount: { ...count, description: 'Of how many methods they are.' },
      }),
    ),
  }),
} as const

/** Calls and credits of all accounts. */
export type TrafficReport = JsonOf<typeof usageSchemas.Usage>

export type TrafficGroup = TrafficReport['groups'][number]

/** Failed calls of all accounts, or of one. */
export type ErrorReport = JsonOf<typeof usageSchemas.ErrorReport>

export type ErrorGroup = ErrorReport['groups'][number]

/** More days than any retention keeps; a bound for the query. */
const maxDays = 3_660

type AccountBalance = { readonly account: string; readonly plan: string } & Balance
type AccountCalls = { readonly account: string; readonly by: Grouping } & CallCounts

const trafficOrders = ['credits', 'calls', 'failed', 'byGateway', 'byCaller', 'p95Ms'] as const

const hoursOption = {
  type: 'integer',
  minimum: 1,
  maximum: 31 * hoursPerDay,
  default: hoursPerDay,
  description: `How many hours back, up to now: from 1 to ${31 * hoursPerDay}; ${hoursPerDay} if absent.`,
} as const

/** The command has one option for both. */
const byDescription =
  `Counts calls by one field: ${formatAlternatives(groupings)}; ` + `those of all accounts by ${formatAlternatives(trafficDimensions)}.`

/** With the command `usage`. */
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
        by: { type: 'string', enum: groupings, description: byDescription },
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
          ? { columns: [usage.by, ...sumNames], rows: usage.groups.map(toCells) }
          : { columns: Object.keys(usage), rows: [Object.values(usage).map(value => String(value ?? ''))] },
      text(usage) {
        if (!('by' in usage))
          return [{ fields: { ...usage, limit: usage.limit ?? removedPlanLabel, left: usage.left ?? removedPlanLabel } }]
        const { account, from, to, by, groups, total } = usage
        if (groups.length === 0) return [`no calls of ${account} ${from === to ? `on ${to}` : `from ${from} to ${to}`}`]
        const columns = [by, ...sumNames].map(title => title.toUpperCase())
        return [{ columns, rows: [...groups, { name: 'total', ...total }].map(toCells) }]
      },
    },
  }),
  defineOperation({
    name: 'usage all',
    method: 'get',
    path: '/usage',
    summary: 'Calls, failed calls, credits and latencies of all accounts, the most credits first, or the most of something else.',
    input: {
      type: 'object',
      properties: {
        by: { type: 'string', enum: trafficDimensions, default: 'account', description: byDescription },
        hours: hoursOption,
        sort: {
          type: 'string',
          enum: trafficOrders,
          default: 'credits',
          description:
            'Of what the most comes first; `byGateway`: of calls that failed by the fault of nodes or of the gateway; `byCaller`: of those that failed by the callers’ own errors.',
        },
        offset: { type: 'integer', minimum: 0, default: 0, description: 'How many groups to skip.' },
        limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 100, description: 'Most groups of the response.' },
      },
    },
    output: schemaRef('Usage'),
    async run({ by, hours, sort, offset, limit }, { store, queries, clock }): Promise<TrafficReport> {
      const to = Math.floor(clock.now() / hourMs) + 1
      const { groups: totals, total } = await queries.totals({ from: to - hours, to, by })
      const measure = (group: UsageTotals): number => (sort === 'byCaller' ? group.failed - group.byGateway : (group[sort] ?? 0))
      const ordered = sort === 'credits' ? totals : totals.toSorted((a, b) => measure(b) - measure(a))
      const page = ordered.slice(offset, offset + limit)
      const nameOf = async (id: string) => (await store.account(id))?.name ?? ''
      const groups = by === 'account' ? await Promise.all(page.map(async group => ({ ...group, account: await nameOf(group.name) }))) : page
      return { by, from: isoTime((to - hours) * hourMs), groupCount: totals.length, groups, total }
    },
    command: {
      flags: { by: { placeholder: 'FIELD' } },
      fixed: { offset: 0, limit: Infinity },
      csv: ({ by, groups }) => ({ columns: [by, ...sumNames], rows: groups.map(toTrafficCells) }),
      text: ({ by, from, groups, total }) =>
        groups.length === 0
          ? [`no calls since ${from}`]
          : [
              {
                columns: [by, ...sumNames].map(title => title.toUpperCase()),
                rows: [...groups.map(toTrafficCells), toCells({ name: 'total', ...total })],
              },
            ],
    },
  }),
]

export const errorOperations = [
  defineOperation({
    name: 'errors',
    method: 'get',
    path: '/errors',
    summary:
      'Failed calls of all accounts, or of one, by network and outcome, with the methods that fail most: those by the fault of nodes or of the gateway first.',
    input: {
      type: 'object',
      properties: {
        account: { type: 'string', description: 'Only of the account with this name or id.' },
        network: { type: 'string', description: 'Only of the network of this name.' },
        hours: hoursOption,
      },
    },
    output: schemaRef('ErrorReport'),
    async run({ account, network, hours }, services): Promise<ErrorReport> {
      const to = Math.floor(services.clock.now() / hourMs) + 1
      const id = account === undefined ? undefined : (await findAccount(services, account)).id
      const { groups: failures } = await services.queries.failures({ from: to - hours, to, account: id, network })
      const groups = await Promise.all(
        failures.map(async ({ most, hours, ...group }) => ({
          ...group,
          ...describeOutcome(group.outcome),
          byGateway: failedOutcomes.has(group.outcome),
          firstHour: isoTime(hours.first * hourMs),
          lastHour: isoTime(hours.last * hourMs),
          most: { ...most, name: (await services.store.account(most.account))?.name ?? '' },
        })),
      )
      return { from: isoTime((to - hours) * hourMs), groups: groups.sort(compareErrors) }
    },
    command: {
      flags: { account: { placeholder: 'ACCOUNT' }, network: { placeholder: 'NAME' } },
      csv: ({ groups }) => ({
        columns: [
          'network',
          'outcome',
          'code',
          'byGateway',
          'calls',
          'callsOfNetwork',
          'accounts',
          'most',
          'firstHour',
          'lastHour',
          'methods',
        ],
        rows: groups.map(toErrorCells),
      }),
      text: ({ from, groups }) =>
        tableOr(
          `no failed calls since ${from}`,
          ['NETWORK', 'OUTCOME', 'CODE', 'BY GATEWAY', 'CALLS', 'OF', 'ACCOUNTS', 'MOST BY', 'FIRST HOUR', 'LAST HOUR', 'METHODS'],
          groups.map(toErrorCells),
        ),
    },
  }),
]

const compareErrors = (a: ErrorGroup, b: ErrorGroup): number =>
  Number(b.byGateway) - Number(a.byGateway) || b.calls - a.calls || (a.network < b.network ? -1 : 1)

const toErrorCells = ({
  network,
  outcome,
  code,
  byGateway,
  calls,
  callsOfNetwork,
  accounts,
  most,
  methods,
  ...hours
}: ErrorGroup): readonly string[] => [
  ...[network, outcome, String(code ?? '-'), byGateway ? 'yes' : 'no'],
  ...[calls, callsOfNetwork, accounts].map(String),
  most.name || most.account,
  ...[hours.firstHour, hours.lastHour].map(hour => `${hour.slice(0, 16)}Z`),
  methods.map(({ method, calls }) => `${method} ${calls}`).join(', '),
]

const toCells = ({ name, ...group }: UsageTotals): readonly string[] => [name, ...sumNames.map(sum => String(group[sum] ?? ''))]

/** An account by its name; one that no longer exists by its id. */
const toTrafficCells = ({ account, ...group }: TrafficGroup): readonly string[] => toCells({ ...group, name: account || group.name })
