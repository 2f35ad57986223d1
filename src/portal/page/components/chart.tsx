import { useSignal } from '@preact/signals'
import { now } from '../clock.ts'
import { formatCompact, formatMoment, formatNumber, formatSince, formatSpan } from '../format.ts'
import { texts } from '../texts.ts'
import { Icon } from './icon.tsx'
import { drawing } from './load-drawing.ts'
import { plotHeightPx, shareOf, withoutEmpty } from './plot-geometry.ts'
import type { ChartLimit, ChartSeries, PlotProps } from './plot-geometry.ts'
import { Skeleton } from './skeleton.tsx'
import { Table } from './table.tsx'

export type { ChartSeries } from './plot-geometry.ts'

const pxPerRem = 16

const plotOf = (isCompact: boolean) =>
  drawing.component<PlotProps>(code => code.Plot, <Skeleton height={plotHeightPx({ isCompact }) / pxPerRem} />)

const [Plot, CompactPlot] = [plotOf(false), plotOf(true)]

interface ChartProps {
  readonly title: string
  /** ISO 8601, of each point. */
  readonly times: readonly string[]
  /** Where the last column ends; points of lines have no length. */
  readonly end?: string
  /** Of which time the first column is, where that is not all of it. */
  readonly beginsAt?: string | undefined
  /** How long the axis of lines is, which ends at the last point; as long as there are points unless given. */
  readonly rangeMs?: number | undefined
  /** The axis of values is as long at least: without it, few failures of many calls would look like many. */
  readonly least?: number
  /** What is before this time, ISO 8601, has another ground. */
  readonly grayUntil?: string
  /** The last point is not over yet; unless given, that of columns that end later than now. */
  readonly isRunning?: boolean
  /** Columns stand on each other, the first one below. */
  readonly series: readonly ChartSeries[]
  readonly kind?: 'columns' | 'lines'
  /** Lower, for several beside each other. */
  readonly isCompact?: boolean
  readonly limit?: ChartLimit | undefined
  /** Beside the title: what all points come to. */
  readonly note?: string
  /** Of a value; a number unless given. */
  format?(value: number): string
  /** Chooses the time from the beginning of a point, ISO 8601. */
  onPickTime?(from: string, to: string): void
  /** Chooses a series of the legend. */
  onPickSeries?(id: string): void
}

/** Figures over time; the same as a table for those who cannot see them. */
export const Chart = (props: ChartProps) => {
  const {
    title,
    times,
    end = times.at(-1) ?? '',
    beginsAt,
    series,
    kind = 'columns',
    isCompact = false,
    limit,
    note = limit?.label,
  } = props
  const { format = formatNumber, rangeMs, least, grayUntil, onPickTime, onPickSeries } = props
  const isTable = useSignal(false)
  const Drawing = isCompact ? CompactPlot : Plot
  const pointed = useSignal<number | undefined>(undefined)
  const index = pointed.value !== undefined && pointed.value < times.length ? pointed.value : undefined
  const stepMs = Date.parse(end) - Date.parse(times.at(-1) ?? end)
  const { isRunning = Date.parse(end) > Date.now() } = props
  const parts = [
    ...(beginsAt === undefined ? [] : [formatSince(beginsAt)]),
    ...(isRunning ? [`${formatSpan(times.at(-1) ?? '', stepMs)}, ${texts.notOverYet}`] : []),
  ]
  const notOver = parts.length > 0 && !isTable.value ? `${texts.notOver[kind]} ${parts.join('; ')}` : undefined
  const isStacked = kind === 'columns' && series.length > 1
  const shown = withoutEmpty(series, kind)
  const positionOf = (point: number): number => shareOf({ times, stepMs, kind, rangeMs }, point)
  const valueAt = (point: number, { points }: ChartSeries): string => {
    const value = points[point] ?? null
    return value === null ? '–' : format(value)
  }
  // Of lines with gaps, as where there were no calls.
  const lastKnown = Math.max(
    0,
    times.findLastIndex((_, point) => series.some(({ points }) => typeof points[point] === 'number')),
  )
  const restingValue = (each: ChartSeries): string => (typeof each.ofRange === 'number' ? format(each.ofRange) : valueAt(lastKnown, each))
  const isOfRange = series.some(({ ofRange }) => typeof ofRange === 'number')
  const totalAt = (point: number): string => format(series.reduce((sum, { points }) => sum + (points[point] ?? 0), 0))
  const timeAt = (point: number): string =>
    [
      formatSpan(times[point] ?? '', stepMs),
      ...(point === 0 && beginsAt !== undefined ? [formatSince(beginsAt)] : []),
      ...(isRunning && point === times.length - 1 ? [texts.soFar] : []),
    ].join(', ')
  const describe = (point: number): string =>
    [
      timeAt(point),
      ...(isStacked ? [`${texts.usage.total}: ${totalAt(point)}`] : []),
      ...series.map(each => `${each.name}: ${valueAt(point, each)}`),
    ].join('; ')
  return (
    <figure class="card chart">
      <figcaption>
        <span>{title}</span>
        {note !== undefined && <span class="note">{note}</span>}
        <button
          type="button"
          class="quiet small"
          aria-label={`${isTable.value ? texts.showChart : texts.showTable}: ${title}`}
          onClick={() => (isTable.value = !isTable.value)}
        >
          <Icon name={isTable.value ? 'usage' : 'table'} />
          {isTable.value ? texts.chart : texts.table}
        </button>
      </figcaption>
      {isTable.value ? (
        <Table
          caption={title}
          keyOf={point => times[point] ?? ''}
          rows={times.map((_, point) => point)}
          columns={[
            { title: texts.usage.time, cell: timeAt },
            ...(isStacked ? [{ title: texts.usage.total, isNumber: true, cell: totalAt }] : []),
            ...series.map(each => ({ title: each.name, isNumber: true, cell: (point: number) => valueAt(point, each) })),
          ]}
        />
      ) : (
        <div class="plot-frame">
          <Drawing
            {...{ label: title, times, stepMs, series, kind, isCompact, limit, rangeMs, least, grayUntil, isRunning, describe }}
            isFirstPart={beginsAt !== undefined}
            formatValue={props.format ?? formatCompact}
            pointed={index}
            onPoint={point => (pointed.value = point)}
            onPick={onPickTime && ((from, to) => onPickTime(times[from] ?? '', times[to] ?? end))}
          />
          {index !== undefined && (
            <div class={positionOf(index) > 0.5 ? 'tooltip left' : 'tooltip'} style={tooltipPosition(positionOf(index))} aria-hidden="true">
              <p>{timeAt(index)}</p>
              <ul>
                {shown.toReversed().map(each => (
                  <li key={each.id}>
                    <Swatch color={each.color} />
                    <span>{each.name}</span>
                    <strong>{valueAt(index, each)}</strong>
                  </li>
                ))}
                {isStacked && (
                  <li>
                    <span class="swatch" />
                    <span>{texts.usage.total}</span>
                    <strong>{totalAt(index)}</strong>
                  </li>
                )}
              </ul>
            </div>
          )}
        </div>
      )}
      {(series.length > 1 || kind === 'lines' || notOver !== undefined) && (
        <Legend
          series={series.length > 1 || kind === 'lines' ? shown : []}
          notOver={notOver}
          kind={kind}
          onPick={onPickSeries}
          // Of lines there is room for the values: where the pointer is, else those of the whole range, or of the last point that is known, with
          // its time: it may be from before what is above.
          {...(kind === 'lines' && {
            when:
              index === undefined && (isOfRange || times.length < 2)
                ? undefined
                : formatMoment(times[index ?? lastKnown] ?? '', now.peek()),
            shownValueOf: (each: ChartSeries) => (index === undefined ? restingValue(each) : valueAt(index, each)),
          })}
        />
      )}
    </figure>
  )
}

export interface LineChartsProps extends Pick<ChartProps, 'times' | 'end' | 'rangeMs' | 'grayUntil' | 'isRunning'> {
  readonly charts: readonly Pick<ChartProps, 'title' | 'format' | 'series' | 'least'>[]
}

/** Charts of lines of the same time, beside each other. */
export const LineCharts = ({ charts, ...axis }: LineChartsProps) => (
  <div class="cards charts">
    {charts.map(chart => (
      <Chart key={chart.title} kind="lines" isCompact {...axis} {...chart} />
    ))}
  </div>
)

interface LegendProps {
  readonly series: readonly ChartSeries[]
  /** How the last point is drawn, which is not over yet. */
  readonly notOver: string | undefined
  readonly kind: ChartProps['kind'] & string
  readonly onPick?: ((id: string) => void) | undefined
  /** Of which time the values are. */
  readonly when?: string | undefined
  shownValueOf?(series: ChartSeries): string
}

const Legend = ({ series, notOver, kind, onPick, when, shownValueOf }: LegendProps) => (
  <ul class="legend" aria-label={texts.legend}>
    {when !== undefined && <li class="since">{when}:</li>}
    {series.map(each => (
      <li key={each.id}>
        {onPick === undefined ? (
          <>
            <Swatch color={each.color} />
            {each.name}
          </>
        ) : (
          <button type="button" class="plain small" aria-label={`${texts.showOnly} ${each.name}`} onClick={() => onPick(each.id)}>
            <Swatch color={each.color} />
            {each.name}
          </button>
        )}
        {shownValueOf !== undefined && <strong>{shownValueOf(each)}</strong>}
      </li>
    ))}
    {notOver !== undefined && (
      <li class="not-over">
        <span class={`swatch of-${kind}`} />
        <span>{notOver}</span>
      </li>
    )}
  </ul>
)

const Swatch = ({ color }: { readonly color: string }) => <span class="swatch" style={{ background: `var(--${color})` }} />

/** Beside the point; the axis is as wide as that of the plot. */
const tooltipPosition = (share: number) => {
  const left = `calc(var(--axis-width) + (100% - var(--axis-width)) * ${share})`
  return share > 0.5 ? { right: `calc(100% - ${left})` } : { left }
}

const groupColors = ['series-1', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6', 'series-7'] as const
const restColor = 'series-8'
const failureColors = ['failed-1', 'failed-2', 'failed-3', 'failed-4'] as const

/** As many groups have a color of their own. */
export const maxGroups = groupColors.length

export const failedSeries = (points: readonly number[]): ChartSeries => ({
  id: 'failed',
  name: texts.usage.failed,
  color: failureColors[0],
  points,
})

/** The color of a group, by its place among those shown; the rest together have one. */
export const groupColor = (place: number): string => groupColors[place] ?? restColor

/** Of a latency, on each page. */
export const percentileColors = { p50: 'series-1', p95: 'series-3', p99: 'series-5' } as const

/** The color of failed calls of one kind, by its rank. */
export const failureColor = (rank: number): string => failureColors[Math.min(rank, failureColors.length - 1)] ?? failureColors[0]
