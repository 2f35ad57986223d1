import { refusals } from '../../plugin/reply.ts'
import { hourMs, hoursPerDay, isoTime } from '../../util/dates.ts'
import type { UsageCount } from '../../store/store.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'
import { outcomeAdvice } from './outcome-advice.ts'

const ranges = { '24h': 24, '7d': 168, '30d': 720, '90d': 2_160 } as const

type Range = keyof typeof ranges

const rangeNames = Object.keys(ranges) as Range[] // of a literal

const dimensions = ['method', 'network', 'key', 'outcome'] as const

type Dimension = (typeof dimensions)[number]

/** Up to this range, one point is an hour; above, a day. */
const maxHourlyRangeHours = 168

interface UsageSeries {
  readonly name: string
  readonly calls: number
  readonly credits: number
  /** Calls that a partner answered. */
  readonly forwarded: number
  /** Calls by point of time. */
  readonly points: readonly number[]
}

interface UsageReport {
  readonly by: Dimension
  readonly step: 'hour' | 'day'
  /** The beginning of each point, ISO 8601; the last point is not over yet. */
  readonly times: readonly string[]
  readonly groups: readonly UsageSeries[]
  readonly total: UsageSeries
}

/** Counts of the hours up to now. */
const readCounts = async ({ store, clock }: PortalServices, account: string, range: Range): Promise<readonly UsageCount[]> => {
  const end = Math.floor(clock.now() / hourMs) + 1
  return store.usageCounts(account, end - ranges[range], end)
}

const reportUsage = (counts: readonly UsageCount[], by: Dimension, range: Range, now: number): UsageReport => {
  const stepHours = ranges[range] <= maxHourlyRangeHours ? 1 : hoursPerDay
  const last = Math.floor(now / hourMs / stepHours)
  const first = Math.floor((Math.floor(now / hourMs) + 1 - ranges[range]) / stepHours)
  const newSeries = (name: string) => ({ name, calls: 0, credits: 0, forwarded: 0, points: new Array<number>(last - first + 1).fill(0) })
  const total = newSeries('total')
  const groups = new Map<string, typeof total>()
  for (const count of counts) {
    const name = count[by]
    const group = groups.get(name) ?? newSeries(name)
    groups.set(name, group)
    for (const series of [group, total]) {
      series.calls += count.calls
      series.credits += count.credits
      if (count.forwarded) series.forwarded += count.calls
      const point = Math.floor(count.hour / stepHours) - first
      series.points[point] = (series.points[point] ?? 0) + count.calls
    }
  }
  return {
    by,
    step: stepHours === 1 ? 'hour' : 'day',
    times: total.points.map((_, i) => isoTime((first + i) * stepHours * hourMs)),
    groups: [...groups.values()].sort((a, b) => b.credits - a.credits || b.calls - a.calls || (a.name < b.name ? -1 : 1)),
    total,
  }
}

/** What went wrong, how often, and what to do. */
const reportErrors = (counts: readonly UsageCount[]) => {
  const callsByOutcome = new Map<string, number>()
  for (const { outcome, calls } of counts) {
    if (outcome !== 'ok') callsByOutcome.set(outcome, (callsByOutcome.get(outcome) ?? 0) + calls)
  }
  return [...callsByOutcome]
    .filter(([, calls]) => calls > 0)
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
}

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
    response: { $ref: '#/components/schemas/Usage' },
    handle: async ({ person, query: { by, range } }, services) =>
      reportUsage(await readCounts(services, person.account, range), by, range, services.clock.now()),
  }),
  defineRoute({
    method: 'get',
    path: '/errors',
    summary: 'Failed calls by outcome, each with what to do about it.',
    role: 'viewer',
    query: { type: 'object', properties: rangeQuery },
    response: { type: 'array', items: { $ref: '#/components/schemas/ErrorCount' } },
    handle: async ({ person, query: { range } }, services) => reportErrors(await readCounts(services, person.account, range)),
  }),
]
