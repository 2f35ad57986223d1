import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { formatTime } from '../format.ts'
import { texts } from '../texts.ts'
import { colorOf, theme } from '../theme.ts'
import { Table } from './table.tsx'

interface Line {
  readonly label: string
  /** One for each time; null where there is none. */
  readonly points: readonly (number | null)[]
  /** A color of design/tokens.css. */
  readonly color: string
}

interface LineChartProps {
  readonly title: string
  /** ISO 8601. */
  readonly times: readonly string[]
  readonly lines: readonly Line[]
  format(value: number): string
}

/** A row of the table. */
interface ChartRow {
  readonly time: string
  readonly i: number
}

const heightPx = 150

/** Figures over time as lines; the same as a table for those who cannot see them. */
export const LineChart = (props: LineChartProps) => {
  const { title, times, lines, format } = props
  const isTable = useSignal(false)
  const pointed = useSignal<number | undefined>(undefined)
  const index = pointed.value ?? times.length - 1
  const shownAt = (points: Line['points'], i: number): string => formatPoint(points[i], format)
  return (
    <figure class="chart card">
      <figcaption>
        <span>{title}</span>
        <button
          type="button"
          class="plain small"
          aria-label={`${isTable.value ? texts.showChart : texts.showTable}: ${title}`}
          onClick={() => (isTable.value = !isTable.value)}
        >
          {isTable.value ? texts.showChart : texts.showTable}
        </button>
      </figcaption>
      <p class="legend" aria-hidden="true">
        {lines.map(({ label, points, color }) => (
          <span key={label} style={{ '--line-color': `var(--${color})` }}>
            {label} <strong>{shownAt(points, index)}</strong>
          </span>
        ))}
        {pointed.value !== undefined && <span class="pointed">{formatTime(times[index] ?? null)}</span>}
      </p>
      {isTable.value ? (
        <Table
          caption={title}
          keyOf={({ time }) => time}
          rows={times.map((time, i): ChartRow => ({ time, i })).reverse()}
          columns={[
            { title: texts.usage.time, cell: ({ time }: ChartRow) => formatTime(time) },
            ...lines.map(({ label, points }) => ({
              title: label,
              isNumber: true,
              cell: ({ i }: ChartRow) => shownAt(points, i),
            })),
          ]}
        />
      ) : (
        <LinePlot {...props} onPoint={i => (pointed.value = i)} />
      )}
    </figure>
  )
}

const formatPoint = (value: number | null | undefined, format: LineChartProps['format']): string =>
  value === null || value === undefined ? '–' : format(value)

interface LinePlotProps extends LineChartProps {
  onPoint(index: number | undefined): void
}

const toData = ({ times, lines }: LineChartProps): uPlot.AlignedData => [
  times.map(time => Date.parse(time) / 1_000),
  ...lines.map(({ points }) => [...points]),
]

const secondsPerMinute = 60

/** `14:05`, UTC; with seconds where the axis is a few minutes long. */
const formatTick = (seconds: number, rangeSeconds: number): string =>
  new Date(seconds * 1_000).toISOString().slice(11, rangeSeconds < 5 * secondsPerMinute ? 19 : 16)

const createPlot = (element: HTMLElement, props: LinePlotProps): uPlot => {
  const { lines, format, onPoint } = props
  const muted = colorOf('muted')
  const axis = { stroke: muted, grid: { stroke: `color-mix(in srgb, ${muted} 15%, transparent)`, width: 1 }, ticks: { show: false } }
  return new uPlot(
    {
      width: element.clientWidth,
      height: heightPx,
      tzDate: time => uPlot.tzDate(new Date(time * 1_000), 'UTC'),
      legend: { show: false },
      cursor: { y: false, points: { size: 6 } },
      hooks: { setCursor: [({ cursor: { left = -1, idx } }) => onPoint(left < 0 ? undefined : (idx ?? undefined))] },
      axes: [
        {
          ...axis,
          size: 28,
          space: 64,
          values: (_, values) => values.map(value => formatTick(value, (values.at(-1) ?? 0) - (values[0] ?? 0))),
        },
        { ...axis, size: 56, space: 28, values: (_, values) => values.map(format) },
      ],
      scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      series: [
        {},
        ...lines.map(({ color }, i) => ({
          stroke: colorOf(color),
          width: 1.5,
          points: { show: false },
          spanGaps: false,
          ...(i === 0 && { fill: `color-mix(in srgb, ${colorOf(color)} 12%, transparent)` }),
        })),
      ],
    },
    toData(props),
    element,
  )
}

const LinePlot = (props: LinePlotProps) => {
  const { title, times, lines } = props
  const holder = useRef<HTMLDivElement>(null)
  const shown = useRef<uPlot>(null)
  const latest = useRef(props)
  latest.current = props
  useEffect(() => {
    const element = holder.current
    if (element === null) return
    shown.current = createPlot(element, { ...latest.current, onPoint: index => latest.current.onPoint(index) })
    const observer = new ResizeObserver(() => shown.current?.setSize({ width: element.clientWidth, height: heightPx }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      shown.current?.destroy()
      shown.current = null
    }
  }, [lines.map(({ label }) => label).join(), theme.value])
  // The pointer stays where it is.
  useEffect(() => shown.current?.setData(toData(latest.current)), [times])
  return <div ref={holder} class="plot" role="img" aria-label={`${title}. ${texts.showTable}.`} />
}
