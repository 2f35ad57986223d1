import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { formatNumber, formatTime } from '../format.ts'
import { texts } from '../texts.ts'
import { colorOf, theme } from '../theme.ts'
import { Table } from './table.tsx'

interface ChartProps {
  readonly title: string
  /** ISO 8601, of each point. */
  readonly times: readonly string[]
  readonly points: readonly number[]
}

const heightPx = 220

/** Columns over time; the same figures as a table for those who cannot see them. */
export const Chart = ({ title, times, points }: ChartProps) => {
  const isTable = useSignal(false)
  const pointed = useSignal<number | undefined>(undefined)
  const time = pointed.value === undefined ? undefined : times[pointed.value]
  const isRunning = pointed.value === times.length - 1
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        {time !== undefined && !isTable.value && (
          <span class="pointed" aria-hidden="true">
            {formatTime(time)}: {formatNumber(points[pointed.value ?? 0] ?? 0)}
            {isRunning && `, ${texts.soFar}`}
          </span>
        )}
        <button type="button" class="plain small" onClick={() => (isTable.value = !isTable.value)}>
          {isTable.value ? texts.showChart : texts.showTable}
        </button>
      </figcaption>
      {isTable.value ? (
        <PointsTable title={title} times={times} points={points} />
      ) : (
        <Plot title={title} times={times} points={points} onPoint={index => (pointed.value = index)} />
      )}
    </figure>
  )
}

const PointsTable = ({ title, times, points }: ChartProps) => (
  <Table
    caption={title}
    keyOf={({ time }) => time}
    rows={times.map((time, i) => ({ time, calls: points[i] ?? 0 }))}
    columns={[
      { title: texts.usage.time, cell: ({ time }) => formatTime(time) },
      { title: texts.calls, isNumber: true, cell: ({ calls }) => formatNumber(calls) },
    ]}
  />
)

const secondsPerDay = 86_400

/** Hours as `14:00`, days as `01-31`, UTC. */
const formatTick = (seconds: number, stepSeconds: number): string => {
  const iso = new Date(seconds * 1_000).toISOString()
  return stepSeconds >= secondsPerDay || seconds % secondsPerDay === 0 ? iso.slice(5, 10) : iso.slice(11, 16)
}

const toSeconds = (times: readonly string[]): number[] => times.map(time => Date.parse(time) / 1_000)

interface PlotProps extends ChartProps {
  /** The column below the pointer; undefined where there is none. */
  onPoint(index: number | undefined): void
}

const createPlot = (element: HTMLElement, { times, points, onPoint }: PlotProps): uPlot => {
  const [color, data] = [colorOf('muted'), colorOf('data')]
  const seconds = toSeconds(times)
  const stepSeconds = (seconds[1] ?? 0) - (seconds[0] ?? 0)
  const axis = { stroke: color, grid: { stroke: `color-mix(in srgb, ${color} 15%, transparent)`, width: 1 }, ticks: { show: false } }
  const bars = {
    stroke: data,
    fill: data,
    width: 1,
    points: { show: false },
    paths: uPlot.paths.bars!({ size: [0.8, 60], align: 1 }),
  }
  const options: uPlot.Options = {
    width: element.clientWidth,
    height: heightPx,
    tzDate: time => uPlot.tzDate(new Date(time * 1_000), 'UTC'),
    legend: { show: false },
    cursor: { y: false, points: { show: false } },
    hooks: { setCursor: [plot => onPoint(columnAt(plot, seconds, stepSeconds))] },
    axes: [
      { ...axis, values: (_, values) => values.map(value => formatTick(value, stepSeconds)) },
      { ...axis, size: 60, values: (_, values) => values.map(formatNumber) },
    ],
    scales: { x: { range: (_, min, max) => [min, max + stepSeconds] }, y: { range: (_, __, max) => [0, Math.max(1, max) * 1.1] } },
    series: [{}, bars],
  }
  return new uPlot(options, [seconds, [...points]], element)
}

/** A column begins at its time, and is as wide as a step. */
const columnAt = ({ cursor: { left = -1 }, posToVal }: uPlot, seconds: readonly number[], stepSeconds: number): number | undefined => {
  const index = Math.floor((posToVal(left, 'x') - (seconds[0] ?? 0)) / stepSeconds)
  return left < 0 || seconds[index] === undefined ? undefined : index
}

const Plot = (props: PlotProps) => {
  const { title, times, points } = props
  const holder = useRef<HTMLDivElement>(null)
  const shown = useRef<uPlot>(null)
  const latest = useRef(props)
  latest.current = props
  useEffect(() => {
    const element = holder.current
    if (element === null) return
    const draw = () => {
      shown.current?.destroy()
      shown.current = createPlot(element, latest.current)
    }
    draw()
    const observer = new ResizeObserver(() => shown.current?.setSize({ width: element.clientWidth, height: heightPx }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      shown.current?.destroy()
      shown.current = null
    }
  }, [String(times), theme.value])
  // New figures come every second: the pointer stays where it is.
  useEffect(() => shown.current?.setData([toSeconds(times), [...points]]), [points])
  return <div ref={holder} class="plot" role="img" aria-label={`${title}. ${texts.showTable}.`} />
}
