import type { Infer } from '../../plugin/options-schema.ts'
import { fiveMinuteRetentionHours, hourRetentionDays, successOutcome, usagePeriodsMs } from '../../store/usage-store.ts'
import type { UsagePeriod } from '../../store/usage-store.ts'
import { dayMs, hourMs, isoTime } from '../../util/dates.ts'
import { invalidField } from '../api-errors.ts'
import { listOf, schemaRef } from '../openapi.ts'
import { adviceOf, describeOutcome } from '../outcome-advice.ts'
import { accountOf } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import type { FailureMessage } from '../queries/request-queries.ts'
import { keepsParams } from '../request-json.ts'
import { dimensions, filterQuery } from '../queries/usage-dimensions.ts'
import type { Dimension } from '../queries/usage-dimensions.ts'
import type { UsageOverTime } from '../queries/usage-queries.ts'
import { defineRoute } from '../route.ts'

const rangesMs = { '1h': hourMs, '6h': 6 * hourMs, '24h': dayMs, '7d': 7 * dayMs, '30d': 30 * dayMs, '90d': 90 * dayMs } as const

type Range = keyof typeof rangesMs

const rangeNames = Object.keys(rangesMs) as Range[] // of a literal

/** Up to this range, one point is an hour, while hours are kept; above, a day. */
const maxHourlyRangeMs = 8 * dayMs
const maxRangeMs = 400 * dayMs

export interface UsageAnswer extends UsageOverTime {
  readonly by: Dimension
  readonly step: UsagePeriod
  /** The beginning of each point, ISO 8601; the last point may not be over yet. */
  readonly times: readonly string[]
  /** The end of the last point. */
  readonly end: string
}

const time = { type: 'string', maxLength: 40 } as const

/** How far back, or from when until when; `from` is that of the request log. */
export const timeQuery = {
  range: { type: 'string', enum: rangeNames, description: 'How far back, up to now; `from` replaces it.' },
  from: { ...time, description: 'The beginning, ISO 8601.' },
  to: { ...time, description: 'The end, ISO 8601; now if absent.' },
} as const

/** The beginning and the end, in ms since 1970; undefined where nothing is asked for. Throws ApiError. */
export const timesOf = ({ range, from, to }: Infer<{ readonly type: 'object'; readonly properties: typeof timeQuery }>, now: number) => ({
  since: from !== undefined ? parseTime('from', from) : range !== undefined ? now - rangesMs[range] : undefined,
  until: to === undefined ? undefined : parseTime('to', to),
})

const rangeQuery = {
  range: { type: 'string', enum: rangeNames, default: '24h', description: 'How far back, up to now; `from` replaces it.' },
  from: { ...time, description: 'The beginning, ISO 8601. The range is extended to whole points.' },
  to: { ...time, description: 'With `from`: the end; now if absent.' },
  ...filterQuery,
} as const

type RangeQuery = Infer<{ readonly type: 'object'; readonly properties: typeof rangeQuery }>

/** The points of a range. Throws ApiError. */
const pointsOf = ({ range, from: fromText, to: toText }: RangeQuery, now: number) => {
  const isCustom = fromText !== undefined
  const to = isCustom && toText !== undefined ? parseTime('to', toText) : now
  const from = isCustom ? parseTime('from', fromText) : now - rangesMs[range]
  if (from >= to) throw invalidField(isCustom ? 'from' : 'to', 'must be before the end')
  if (to - from > maxRangeMs) throw invalidField('from', `must be at most ${maxRangeMs / dayMs} days before the end`)
  const period = periodOf(from, to, now)
  const periodMs = usagePeriodsMs[period]
  // A range up to now has as many points as fit into it, with the one that is not over yet.
  const first = isCustom ? Math.floor(from / periodMs) : Math.floor(from / periodMs) + 1
  return { period, periodMs, from: first, to: Math.max(first + 1, Math.ceil(Math.min(to, now + 1) / periodMs)) }
}

const periodOf = (from: number, to: number, now: number): UsagePeriod => {
  const fiveMinutesFrom = now - fiveMinuteRetentionHours * hourMs
  if (from >= fiveMinutesFrom && to - from <= fiveMinuteRetentionHours * hourMs) return 'fiveMinutes'
  return to - from <= maxHourlyRangeMs && from >= now - hourRetentionDays * dayMs ? 'hour' : 'day'
}

const parseTime = (field: string, text: string): number => {
  const parsed = Date.parse(text)
  if (Number.isNaN(parsed) || parsed < 0) throw invalidField(field, 'must be a time such as 2026-01-15T12:00:00Z')
  return parsed
}

const filterOf = ({ method, network, key, outcome }: RangeQuery) => ({ method, network, key, outcome })

/** What went wrong, how often, what callers were told, and what to do. */
const reportErrors = (outcomes: readonly (readonly [outcome: string, calls: number])[], messages: readonly FailureMessage[]) =>
  outcomes
    .filter(([outcome, calls]) => outcome !== successOutcome && calls > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([outcome, calls]) => ({
      ...{ ...describeOutcome(outcome), calls, advice: adviceOf(outcome) },
      messages: messages
        .filter(each => each.outcome === outcome)
        .map(({ outcome: _, lastSeen, ...told }) => ({ ...told, lastSeen: isoTime(lastSeen) })),
    }))

export type ErrorCount = ReturnType<typeof reportErrors>[number]

const maxSeries = 1_000

export const usageRoutes = [
  defineRoute({
    method: 'get',
    path: '/usage',
    summary:
      'Calls, failed calls, credits and latencies over time, by method, network, key or outcome. A point is 5 minutes, an hour or a day; the running one is included.',
    role: 'viewer',
    query: {
      type: 'object',
      properties: {
        ...rangeQuery,
        by: { type: 'string', enum: dimensions, default: 'method', description: 'What calls are counted by.' },
        series: {
          type: 'integer',
          minimum: 0,
          maximum: maxSeries,
          default: maxSeries,
          description: 'So many groups, those with the most credits, have `points`; of the others they are empty.',
        },
      },
    },
    response: schemaRef('Usage'),
    async handle({ person: { account }, query }, { queries, clock }: PortalServices): Promise<UsageAnswer> {
      const { by, series } = query
      const { period, periodMs, from, to } = pointsOf(query, clock.now())
      const report = await queries.overTime({ account, period, from, to, filter: filterOf(query), by, maxSeries: series })
      const times = Array.from({ length: to - from }, (_, i) => isoTime((from + i) * periodMs))
      return { by, step: period, times, end: isoTime(to * periodMs), ...report }
    },
  }),
  defineRoute({
    method: 'get',
    path: '/errors',
    summary: 'Failed calls by outcome, each with what to do about it, and the most frequent messages of its logged requests.',
    role: 'viewer',
    query: { type: 'object', properties: rangeQuery },
    response: listOf(schemaRef('ErrorCount')),
    async handle({ person: { account }, query }, services) {
      const { queries, clock } = services
      const { period, periodMs, from, to } = pointsOf(query, clock.now())
      const outcomes = queries.outcomes({ account, period, from, to, filter: filterOf(query) })
      const isLogged = services.requestLog.enabled && keepsParams(services.requestLog, await accountOf(services, account))
      const since = isLogged ? from * periodMs : undefined
      const messages = since === undefined ? [] : queries.failureMessages({ account, since, until: to * periodMs, ...filterOf(query) })
      return reportErrors(await outcomes, await messages)
    },
  }),
]
