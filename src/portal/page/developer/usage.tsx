import type { Dimension } from '../../queries/usage-dimensions.ts'
import type { UsageSeries } from '../../queries/usage-queries.ts'
import type { UsageAnswer } from '../../routes/usage.ts'
import { now } from '../clock.ts'
import { Banner } from '../components/banner.tsx'
import { Chart, LineCharts, failedSeries, failureColor, groupColor, maxGroups, percentileColors } from '../components/chart.tsx'
import type { ChartSeries } from '../components/chart.tsx'
import { Select, WhenLoaded, WhileRead } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Figure } from '../components/figure.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import {
  formatDay,
  formatLatency,
  formatMethod,
  formatNumber,
  formatOutcome,
  formatPercent,
  formatShare,
  formatSince,
  hourMs,
} from '../format.ts'
import { isNarrow } from '../narrow.ts'
import { get, useRequest } from '../request.ts'
import { query, queryMember } from '../router.ts'
import { developerTexts } from './developer-texts.ts'
import { account } from './developer-session.ts'
import { TryCallLink } from './try-call-link.tsx'
import {
  ClearFilters,
  FilterButton,
  FilterChips,
  FilterSelect,
  RangePicker,
  chooseFilter,
  chooseTime,
  dimensions,
  hasFilter,
  nameOfValue,
  rangeAndFilters,
} from './filters.tsx'
import { useKeyNames } from './key-names.ts'

const text = developerTexts.usage

const dimensionOptions = dimensions.map(value => ({ value, label: text[value] }))

/** What the chart shows of the calls. */
const measures = ['calls', 'credits', 'latency'] as const

type Measure = (typeof measures)[number]

const measureOptions = measures.map(value => ({ value, label: text.measures[value] }))

type NameOf = (series: Pick<UsageSeries, 'name'>) => string

export const Usage = () => {
  const by = queryMember('by', 'method')
  const of = queryMember('of', 'calls')
  const measure = of.value as Measure // of the address: another one is shown as calls
  const asked = { by: by.value, series: String(maxGroups), ...(measure === 'latency' && { latencies: 'true' }) }
  const report = useRequest<UsageAnswer>(`/usage?${rangeAndFilters(asked)}`)
  const keys = useKeyNames()
  const found = report.data.value
  // The groups of the report, which may not be those that were just chosen: the answer takes its time.
  const nameOf: NameOf = ({ name }) => (found === undefined ? name : nameOfValue(found.by, name, keys.nameOf))
  const keyCells = (id: string) => [keys.byId.get(id)?.name ?? '', keys.byId.get(id)?.hint ?? '', id]
  const groupCells = ({ name }: UsageSeries) => (found?.by === 'key' ? keyCells(name) : [name])
  return (
    <>
      <div class="controls">
        <RangePicker />
        <Select label={text.by} options={dimensionOptions} value={by.value as Dimension} onChange={by.set} />
        <Segments label={text.measure} options={measureOptions} value={measure} onChange={of.set} />
        {found !== undefined && found.groups.length > 0 && (
          <Downloads
            name={`usage-by-${found.by}`}
            titles={[...groupTitles(found.by), 'calls', 'credits', 'forwarded', 'failed', 'p50Ms', 'p95Ms']}
            read={() => ({
              json: found,
              rows: found.groups.map(row => [
                ...groupCells(row),
                ...[row.calls, row.credits, row.forwarded, row.failed, row.p50Ms ?? '', row.p95Ms ?? ''],
              ]),
            })}
            more={[
              {
                name: 'usage-by-key-and-network',
                label: text.downloadBill,
                titles: ['from', 'to', ...groupTitles('key'), 'network', 'calls', 'credits', 'forwarded', 'failed'],
                read: async () =>
                  billRows(await get<UsageAnswer>(`/usage?${rangeAndFilters({ by: 'key', and: 'network', series: '0' })}`), keyCells),
              },
              {
                name: `usage-over-time-by-${found.by}`,
                label: text.downloadSeries,
                titles: ['time', ...groupTitles(found.by), 'calls', 'failed', 'credits'],
                read: async () => seriesRows(await get<UsageAnswer>(`/usage?${rangeAndFilters({ by: found.by })}`), groupCells),
              },
            ]}
          />
        )}
      </div>
      <div class="controls pairs">
        <FilterSelect dimension="method" values={found?.methods ?? []} nameOf={formatMethod} />
        <FilterSelect dimension="network" values={found?.networks ?? []} />
        <FilterSelect dimension="key" values={found?.keys ?? []} nameOf={keys.nameOf} />
      </div>
      <FilterChips of={['outcome']} nameOfKey={keys.nameOf} />
      <WhenLoaded from={report} skeleton={<UsageSkeleton />}>
        {shown =>
          shown.groups.length === 0 ? (
            <>
              <Kept report={shown} isOutdated={report.isOutdated} />
              {hasFilter() ? (
                <EmptyState icon="usage" title={text.noneFound} actions={<ClearFilters />} />
              ) : (
                <EmptyState icon="usage" title={text.none} actions={<TryCallLink />}>
                  {text.noneHelp}
                </EmptyState>
              )}
            </>
          ) : (
            <WhileRead from={report}>
              <Kept report={shown} isOutdated={report.isOutdated} />
              <Totals total={shown.total} />
              <UsageChart report={shown} measure={measure} nameOf={nameOf} />
              {measure === 'latency' && <GroupLatencies report={shown} nameOf={nameOf} />}
              <UsageTable report={shown} nameOf={nameOf} />
            </WhileRead>
          )
        }
      </WhenLoaded>
    </>
  )
}

/** As large as what comes. */
const UsageSkeleton = () => (
  <>
    <div class="card">
      <Skeleton height={4.5} />
    </div>
    <div class="card">
      <Skeleton height={17.5} />
    </div>
  </>
)

const groupTitles = (by: Dimension): readonly string[] => (by === 'key' ? ['key', 'hint', 'id'] : [by])

/** A row for each group and point of time that has calls. */
const seriesRows = ({ times, groups }: UsageAnswer, cellsOf: (series: UsageSeries) => readonly string[]) =>
  groups.flatMap(group =>
    times.flatMap((time, i) => {
      const { calls, failed, credits } = group.points
      return calls[i] ? [[time, ...cellsOf(group), calls[i], failed[i] ?? 0, credits[i] ?? 0]] : []
    }),
  )

/** A row for each key and network. */
const billRows = ({ times, end, groups }: UsageAnswer, cellsOf: (key: string) => readonly string[]) =>
  groups.flatMap(({ name, parts }) =>
    parts.map(part => [times[0] ?? '', end, ...cellsOf(name), part.name, part.calls, part.credits, part.forwarded, part.failed]),
  )

interface KeptProps extends Pick<UsageChartProps, 'report'> {
  /** The range of the address is that of figures which are still being read. */
  readonly isOutdated: boolean
}

/** Which days the figures are of, where that matters: of a month, and where the first ones are not kept any more. */
const Kept = ({ report: { times, end, step, keptFrom }, isOutdated }: KeptProps) => {
  const [from = '', last] = [times[0], new Date(Date.parse(end) - 1)]
  const isMonth = ['thisMonth', 'lastMonth'].includes(query.value.get('range') ?? '')
  const isRunning = Date.parse(end) > now.value
  const range = query.value.get('range') ?? '24h'
  const asked = (text.ranges as Readonly<Record<string, string>>)[range]
  return (
    <>
      {!isMonth && isRunning && (
        <p class="lead">
          {isOutdated || query.value.has('from') || asked === undefined ? `${developerTexts.calls} ${formatSince(from)}` : asked}.{' '}
          {text.running[step]}
        </p>
      )}
      {isMonth && (
        <p class="lead">
          {formatDay(new Date(from))} – {formatDay(last)}, {last.getUTCFullYear()}. {text.months}
        </p>
      )}
      {from < keptFrom && (
        <Banner tone="warn" title={text.incomplete}>
          {text.keptFrom} {keptFrom.slice(0, 10)}.
        </Banner>
      )}
    </>
  )
}

const Totals = ({ total: { calls, failed, credits, p50Ms, p95Ms } }: { readonly total: UsageSeries }) => (
  <div class="card figures">
    <Figure label={developerTexts.calls} value={formatNumber(calls)} note={`${formatNumber(failed)} ${text.ofThemFailed}`} testId="calls" />
    <Figure label={text.success} value={formatShare(calls - failed, calls)} />
    <Figure label={text.latency} value={formatLatency(p50Ms)} note={`${text.p95}: ${formatLatency(p95Ms)}`} />
    <Figure label={developerTexts.credits} value={formatNumber(credits)} />
  </div>
)

interface UsageChartProps {
  readonly report: UsageAnswer
  readonly measure: Measure
  readonly nameOf: NameOf
  /** By the measure unless given. */
  readonly title?: string
}

const othersId = 'others'

export const UsageChart = ({ report: asked, measure, nameOf, title = text.titles[measure] ?? text.titles.calls }: UsageChartProps) => {
  const isLatency = measure === 'latency'
  const report = isNarrow.value && !isLatency && asked.step === 'hour' && asked.times.length > maxNarrowColumns ? toDays(asked) : asked
  const { times, end, by, step } = report
  const dailyCredits = account.value?.plan.dailyCredits ?? null
  // Of an hour there is no limit.
  const limit =
    measure === 'credits' && step === 'day' && dailyCredits !== null && !hasFilter()
      ? { label: `${text.limit}: ${formatNumber(dailyCredits)}`, value: dailyCredits }
      : undefined
  const pick = (id: string): void => {
    if (id === othersId) return
    if (id === failedId) chooseFilter('outcome', failedId)
    else chooseFilter(by, id)
  }
  return (
    <Chart
      title={title}
      times={times}
      end={end}
      beginsAt={(times[0] ?? '') < (asked.times[0] ?? '') ? asked.times[0] : undefined}
      series={isLatency ? latencySeries(report) : measure === 'credits' ? creditSeries(report, nameOf) : callSeries(report, nameOf)}
      kind={isLatency ? 'lines' : 'columns'}
      limit={limit}
      {...(isLatency && { note: text.latencyIs })}
      onPickTime={chooseTime}
      {...(isLatency ? { format: formatLatency } : { onPickSeries: pick })}
    />
  )
}

/** So many columns can be told apart in a narrow window. */
const maxNarrowColumns = 48

/** A column for each day, UTC, in place of those of its hours. */
const toDays = ({ times, groups, total, ...rest }: UsageAnswer): UsageAnswer => {
  const days = [...new Set(times.map(time => time.slice(0, 10)))]
  const add = (points: readonly number[]): readonly number[] =>
    points.length === 0 ? [] : days.map(day => points.reduce((sum, value, i) => (times[i]?.startsWith(day) ? sum + value : sum), 0))
  const seriesOfDays = ({ points, ...series }: UsageSeries): UsageSeries => ({
    ...series,
    points: { ...points, calls: add(points.calls), failed: add(points.failed), credits: add(points.credits) },
  })
  const starts = days.map(day => Date.parse(day))
  return {
    ...rest,
    times: starts.map(start => new Date(start).toISOString()),
    end: new Date((starts.at(-1) ?? 0) + 24 * hourMs).toISOString(),
    groups: groups.map(seriesOfDays),
    total: seriesOfDays(total),
  }
}

/** As a filter has it. */
const failedId = 'failed'

const latencySeries = ({ total: { points, p50Ms, p95Ms, p99Ms } }: UsageAnswer): readonly ChartSeries[] => [
  { id: 'p50', name: text.p50, color: percentileColors.p50, points: points.p50Ms, ofRange: p50Ms },
  { id: 'p95', name: text.p95, color: percentileColors.p95, points: points.p95Ms, ofRange: p95Ms },
  { id: 'p99', name: text.p99, color: percentileColors.p99, points: points.p99Ms, ofRange: p99Ms },
]

/** The groups with the most credits beside each other, where there are several. */
const GroupLatencies = ({ report: { by, times, end, groups }, nameOf }: Pick<UsageChartProps, 'report' | 'nameOf'>) => {
  const colored = groups.filter(({ points }) => points.calls.length > 0)
  const shown = colored.filter(({ points }) => points.p95Ms.some(ms => ms !== null))
  if (shown.length < 2) return null
  const chartOf = (quantile: 'p50' | 'p95') => ({
    title: `${text.latenciesBy[quantile]} ${text[by].toLowerCase()}`,
    format: formatLatency,
    series: shown.map(group => ({
      ...{ id: group.name, name: nameOf(group), color: colorOfGroup(group, colored) },
      ...{ points: group.points[`${quantile}Ms`], ofRange: group[`${quantile}Ms`] },
    })),
  })
  return <LineCharts times={times} end={end} charts={[chartOf('p50'), chartOf('p95')]} />
}

/** Failed calls stand below the others, in their own color. */
const callSeries = (report: UsageAnswer, nameOf: NameOf): readonly ChartSeries[] => {
  const { by, total } = report
  if (by === 'outcome') return outcomeSeries(report)
  // Where all calls have failed, their groups differ.
  if (total.failed === total.calls) return groupSeries(report, nameOf, ({ points }) => points.calls)
  const groups = groupSeries(report, nameOf, ({ points }) => points.calls.map((calls, i) => calls - (points.failed[i] ?? 0)))
  return total.failed === 0 ? groups : [failedSeries(total.points.failed), ...groups]
}

const creditSeries = (report: UsageAnswer, nameOf: NameOf): readonly ChartSeries[] =>
  groupSeries(report, nameOf, ({ points }) => points.credits)

const outcomeSeries = ({ groups, total }: UsageAnswer): readonly ChartSeries[] => {
  const withPoints = groups.filter(({ points }) => points.calls.length > 0)
  const failures = withPoints.filter(({ name }) => name !== 'ok').sort((a, b) => b.calls - a.calls)
  const failed = failures.map(({ name, points }, i) => ({
    id: name,
    name: formatOutcome(name),
    color: failureColor(i),
    points: points.calls,
  }))
  const others = othersOf(total.points.calls, withPoints, ({ points }) => points.calls)
  const ok = withPoints
    .filter(({ name }) => name === 'ok')
    .map(({ name, points }) => ({ id: name, name: formatOutcome(name), color: groupColor(0), points: points.calls }))
  return [...failed, ...others, ...ok]
}

type PointsOf = (series: UsageSeries) => readonly number[]

/** By its name among those shown: the same groups have the same colors in each range, whichever has most calls. */
const colorOfGroup = ({ name }: UsageSeries, shown: readonly UsageSeries[]): string =>
  groupColor(shown.filter(other => other.name < name).length)

/** The first groups, and the others together. */
const groupSeries = ({ groups, total }: UsageAnswer, nameOf: NameOf, pointsOf: PointsOf): readonly ChartSeries[] => {
  const withPoints = groups.filter(({ points }) => points.calls.length > 0)
  const series = withPoints.map(group => ({
    ...{ id: group.name, name: nameOf(group), color: colorOfGroup(group, withPoints) },
    points: pointsOf(group),
  }))
  return [...series, ...othersOf(pointsOf(total), withPoints, pointsOf)]
}

const othersOf = (totals: readonly number[], groups: readonly UsageSeries[], pointsOf: PointsOf): readonly ChartSeries[] => {
  const known = groups.map(pointsOf)
  const points = totals.map((total, i) => known.reduce((rest, each) => rest - (each[i] ?? 0), total))
  return points.some(value => value > 0) ? [{ id: othersId, name: text.others, color: groupColor(maxGroups), points }] : []
}

interface UsageTableProps {
  readonly report: UsageAnswer
  readonly nameOf: NameOf
}

const UsageTable = ({ report: { by, groups, total }, nameOf }: UsageTableProps) => (
  <Table
    caption={`${developerTexts.pages.usage} ${text.by} ${text[by]}`}
    keyOf={row => row.name}
    rows={groups}
    total={{ ...total, name: text.total }}
    columns={[
      {
        title: text[by],
        cell: row => (row.name === text.total ? text.total : <FilterButton dimension={by} value={row.name} name={nameOf(row)} />),
      },
      { title: developerTexts.calls, isNumber: true, cell: row => formatNumber(row.calls) },
      { title: text.failed, isNumber: true, cell: row => formatNumber(row.failed) },
      { title: text.success, isNumber: true, cell: row => formatShare(row.calls - row.failed, row.calls) },
      { title: text.p50, isNumber: true, cell: row => formatLatency(row.p50Ms) },
      { title: text.p95, isNumber: true, cell: row => formatLatency(row.p95Ms) },
      { title: developerTexts.credits, isNumber: true, cell: row => formatNumber(row.credits) },
      {
        title: text.share,
        isNumber: true,
        isExtra: true,
        cell: row => formatPercent(Math.round((1_000 * row.credits) / Math.max(1, total.credits)) / 10, 1),
      },
      // Of plans that have it, or had.
      ...(account.value?.plan.forwarding || total.forwarded > 0
        ? [{ title: text.forwarded, isNumber: true, cell: (row: UsageSeries) => formatNumber(row.forwarded) }]
        : []),
    ]}
  />
)
