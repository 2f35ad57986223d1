import { refusals } from '../../plugin/error-table.ts'
import type { RefusalKind } from '../../plugin/error-table.ts'
import { hourMs, hoursPerDay, isoTime } from '../../util/dates.ts'
import { listOf, schemaRef } from '../openapi.ts'
import type { PortalServices } from '../portal-services.ts'
import { dimensions } from '../queries/hour-summaries.ts'
import type { Dimension } from '../queries/hour-summaries.ts'
import type { UsageOverTime } from '../queries/usage-queries.ts'
import { defineRoute } from '../route.ts'

const ranges = { '24h': 24, '7d': 168, '30d': 720, '90d': 2_160 } as const

type Range = keyof typeof ranges

const rangeNames = Object.keys(ranges) as Range[] // of a literal

/** Up to this range, one point is an hour; above, a day. */
const maxHourlyRangeHours = 168

export interface UsageAnswer extends UsageOverTime {
  readonly by: Dimension
  readonly step: 'hour' | 'day'
  /** The beginning of each point, ISO 8601; the last point is not over yet. */
  readonly times: readonly string[]
}

/** The hours up to now. */
const hoursOf = (range: Range, now: number) => {
  const to = Math.floor(now / hourMs) + 1
  return { from: to - ranges[range], to }
}

const reportUsage = async (
  { queries, clock }: PortalServices,
  account: string,
  { by, range }: { readonly by: Dimension; readonly range: Range },
): Promise<UsageAnswer> => {
  const hours = hoursOf(range, clock.now())
  const stepHours = ranges[range] <= maxHourlyRangeHours ? 1 : hoursPerDay
  const report = await queries.overTime({ account, ...hours, by, stepHours })
  const first = Math.floor(hours.from / stepHours)
  const times = report.total.points.map((_, i) => isoTime((first + i) * stepHours * hourMs))
  return { by, step: stepHours === 1 ? 'hour' : 'day', times, ...report }
}

/** What went wrong, how often, and what to do. */
const reportErrors = (outcomes: readonly (readonly [outcome: string, calls: number])[]) =>
  outcomes
    .filter(([outcome, calls]) => outcome !== 'ok' && calls > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([outcome, calls]) => {
      const refusal = Object.hasOwn(refusals, outcome) ? refusals[outcome as keyof typeof refusals] : undefined
      return {
        outcome,
        calls,
        code: refusal?.code ?? null,
        message: refusal?.message ?? 'an error of the node',
        advice: outcomeAdvice(outcome),
      }
    })

export type ErrorCount = ReturnType<typeof reportErrors>[number]

const rangeQuery = {
  range: { type: 'string', enum: rangeNames, default: '24h', description: 'How far back, up to now.' },
} as const

export const usageRoutes = [
  defineRoute({
    method: 'get',
    path: '/usage',
    summary: 'Calls and credits over time, by method, network, key or outcome; the running hour is included.',
    role: 'viewer',
    query: {
      type: 'object',
      properties: {
        ...rangeQuery,
        by: { type: 'string', enum: dimensions, default: 'method', description: 'What calls are counted by.' },
      },
    },
    response: schemaRef('Usage'),
    handle: ({ person, query }, services) => reportUsage(services, person.account, query),
  }),
  defineRoute({
    method: 'get',
    path: '/errors',
    summary: 'Failed calls by outcome, each with what to do about it.',
    role: 'viewer',
    query: { type: 'object', properties: rangeQuery },
    response: listOf(schemaRef('ErrorCount')),
    handle: async ({ person: { account }, query: { range } }, { queries, clock }) =>
      reportErrors(await queries.outcomes({ account, ...hoursOf(range, clock.now()) })),
  }),
]

/** What a developer can do about calls with this outcome. */
const outcomeAdvice = (outcome: string): string =>
  Object.hasOwn(adviceByOutcome, outcome) ? (adviceByOutcome[outcome as keyof typeof adviceByOutcome] ?? unknownAdvice) : unknownAdvice

const unknownAdvice = 'The message of the error says more.'

const adviceByOutcome: Readonly<Partial<Record<RefusalKind | 'node', string>>> = {
  node: 'The node refused the call, for example because a transaction reverts. The message of the error is the node’s.',
  method: 'The network does not offer this method. The page Plan lists the methods of each network.',
  params: 'The message of the error names the parameter and the rule that it breaks. Rejected calls are free.',
  tooMany: 'Narrow the range with fromBlock and toBlock, or query fewer contracts. The error suggests a range that fits.',
  timeout: 'Narrow the range with fromBlock and toBlock; for common topics, query a single contract.',
  tooLarge: 'The answer is larger than a node may send here. Ask for less at once.',
  key: 'The key is missing, mistyped, unknown or revoked. The page Keys shows the active keys.',
  forbidden: 'The key does not allow this network, method or web page. Change its lists on the page Keys.',
  spent: 'The credits of the day, or the daily limit of the key, are used up; both reset at midnight UTC. A larger plan has more.',
  rate: 'Send fewer calls a second, and wait as long as the header Retry-After says.',
  unavailable: 'No node could answer. Send the call again after the time in the header Retry-After.',
  internal: 'A fault of the gateway. Send the request id from the error to the operator.',
}
