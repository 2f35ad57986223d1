import type { Infer } from '../../plugin/options-schema.ts'
import { fiveMinuteRetentionHours, hourRetentionDays, successOutcome, usagePeriodsMs } from '../../store/usage-store.ts'
import type { UsagePeriod } from '../../store/usage-store.ts'
import { dayMs, hourMs, isoDate, isoTime } from '../../util/dates.ts'
import { invalidField } from '../api-errors.ts'
import { schemaRef } from '../response-schemas.ts'
import { adviceOf, describeOutcome } from '../outcome-advice.ts'
import { parseTime } from '../parse-time.ts'
import { accountOf } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import type { FailureMessages } from '../queries/request-queries.ts'
import { keepsParams } from '../request-json.ts'
import { dimensions, filterQuery } from '../queries/usage-dimensions.ts'
import type { Dimension, UsageFilter } from '../queries/usage-dimensions.ts'
import type { OutcomeCalls, UsageOverTime } from '../queries/usage-queries.ts'
import { defineRoute } from '../route.ts'

const rangesMs = { '1h': hourMs, '6h': 6 * hourMs, '24h': dayMs, '7d': 7 * dayMs, '30d': 30 * dayMs, '90d': 90 * dayMs } as const

type Range = keyof typeof rangesMs

const rangeNames = Object.keys(rangesMs) as Range[] // of a literal

/** UTC: the day and the month up to now, and the month before. They are read by days, which takes the fewest rows. */
const calendarNames = ['today', 'thisMonth', 'lastMonth'] as const

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
  /** The first day whose calls are all counted still. */
  readonly keptFrom: string
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
  range: {
    type: 'string',
    enum: [...rangeNames, ...calendarNames],
    default: '24h',
    description: 'How far back, up to now, or a day or month of the calendar, UTC; `from` replaces it.',
  },
  from: { ...time, description: 'The beginning, ISO 8601. The range is extended to whole points.' },
  to: { ...time, description: 'With `from`: the end; now if absent.' },
  ...filterQuery,
} as const

interface RangeQuery {
  readonly range?: Range | (typeof calendarNames)[number] | undefined
  readonly from?: string | undefined
  readonly to?: string | undefined
}

/** The points of a range; without one, of the time before now. Throws ApiError. */
export const pointsOf = ({ range, from, to }: RangeQuery, now: number, defaultRangeMs: number = rangesMs['24h']) => {
  if (from !== undefined) return pointsBetween(parseTime('from', from), to === undefined ? now : parseTime('to', to), now)
  if (range === 'today') return toPoints('day', now, now + 1)
  if (range === 'thisMonth') return toPoints('day', startOfMonth(now), now + 1)
  if (range === 'lastMonth') return toPoints('day', startOfMonth(startOfMonth(now) - dayMs), startOfMonth(now))
  const first = now - (range === undefined ? defaultRangeMs : rangesMs[range])
  const period = periodOf(first, now, now)
  // As many points as fit into it, with the one that is not over yet.
  return toPoints(period, first + usagePeriodsMs[period], now + 1)
}

const pointsBetween = (from: number, to: number, now: number) => {
  if (from >= to) throw invalidField('from', 'must be before the end')
  if (to - from > maxRangeMs) throw invalidField('from', `must be at most ${maxRangeMs / dayMs} days before the end`)
  return toPoints(periodOf(from, to, now), from, Math.min(to, now + 1))
}

/** The whole points of a time. */
const toPoints = (period: UsagePeriod, fromMs: number, toMs: number) => {
  const periodMs = usagePeriodsMs[period]
  const from = Math.floor(fromMs / periodMs)
  return { period, periodMs, from, to: Math.max(from + 1, Math.ceil(toMs / periodMs)) }
}

const startOfMonth = (time: number): number => Date.parse(`${isoDate(time).slice(0, 7)}-01`)

const periodOf = (from: number, to: number, now: number): UsagePeriod => {
  const fiveMinutesFrom = now - fiveMinuteRetentionHours * hourMs
  if (from >= fiveMinutesFrom && to - from <= fiveMinuteRetentionHours * hourMs) return 'fiveMinutes'
  return to - from <= maxHourlyRangeMs && from >= now - hourRetentionDays * dayMs ? 'hour' : 'day'
}

export const filterOf = ({ method, network, key, outcome }: UsageFilter) => ({ method, network, key, outcome })

/** What went wrong, how often, what callers were told, and what to do. */
const reportErrors = (outcomes: readonly OutcomeCalls[], logged: FailureMessages) =>
  outcomes
    .filter(({ outcome, calls }) => outcome !== successOutcome && calls > 0)
    .map(({ outcome, calls, methods }) => {
      const { requests = 0, messages = 0 } = logged.outcomes.find(each => each.outcome === outcome) ?? {}
      return {
        ...describeOutcome(outcome),
        calls,
        methods,
        advice: adviceOf(outcome),
        loggedRequests: requests,
        messageCount: messages,
        messages: logged.messages
          .filter(each => each.outcome === outcome)
          .map(({ outcome: _, lastSeen, ...told }) => ({ ...told, lastSeen: isoTime(lastSeen) })),
      }
    })

export type ErrorCount = ReturnType<typeof reportErrors>[number]

export interface AccountErrors {
  /** All calls that the filters include, with any outcome. */
  readonly calls: number
  /** The most frequent first. */
  readonly errors: readonly ErrorCount[]
  /** Of all failed calls of the range, the most frequent first, whatever else is asked for. */
  readonly methods: readonly string[]
  readonly networks: readonly string[]
  readonly keys: readonly string[]
}

const maxSeries = 1_000
const maxMessages = 200

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
        and: { type: 'string', enum: dimensions, description: 'What the calls of each group are counted by in turn, as `parts`.' },
        latencies: { type: 'boolean', default: false, description: 'Whether points have latencies of each group.' },
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
    async handle({ person: { account }, query }, { queries, clock, usageRetentionMs }: PortalServices): Promise<UsageAnswer> {
      const { by, and, latencies, series } = query
      const { period, periodMs, from, to } = pointsOf(query, clock.now())
      const report = await queries.overTime({ account, period, from, to, filter: filterOf(query), by, and, latencies, maxSeries: series })
      const times = Array.from({ length: to - from }, (_, i) => isoTime((from + i) * periodMs))
      const keptFrom = isoTime(dayMs * Math.ceil((clock.now() - usageRetentionMs) / dayMs))
      return { by, step: period, times, end: isoTime(to * periodMs), keptFrom, ...report }
    },
  }),
  defineRoute({
    method: 'get',
    path: '/errors',
    summary:
      'Failed calls by outcome, the most frequent first, of how many calls: of which methods, what to do about them, and the most frequent messages of their logged requests, with networks and keys.',
    role: 'viewer',
    query: {
      type: 'object',
      properties: {
        ...rangeQuery,
        messages: { type: 'integer', minimum: 0, maximum: maxMessages, default: 3, description: 'Messages of each outcome, at most.' },
      },
    },
    response: schemaRef('AccountErrors'),
    async handle({ person: { account }, query }, services): Promise<AccountErrors> {
      const { queries, clock } = services
      const { period, periodMs, from, to } = pointsOf(query, clock.now())
      const isLogged = services.requestLog.enabled && keepsParams(services.requestLog, await accountOf(services, account))
      const since = isLogged ? from * periodMs : undefined
      const asked = { account, until: to * periodMs, ...filterOf(query), limit: query.messages }
      const [{ outcomes, calls, failed }, logged] = await Promise.all([
        queries.outcomes({ account, period, from, to, filter: filterOf(query) }),
        since === undefined ? { messages: [], outcomes: [] } : queries.failureMessages({ ...asked, since }),
      ])
      return { calls, errors: reportErrors(outcomes, logged), methods: failed.method, networks: failed.network, keys: failed.key }
    },
  }),
]
