import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { colorOf, theme } from '../theme.ts'
import { formatTick, timeSpaceOf, timeStepsOf } from './plot-axis.ts'
import { axisWidthPx, failuresHeight, isFailure, linePartsOf, plotHeightPx, timeRangeOf } from './plot-geometry.ts'
import type { ChartLimit, PlotProps } from './plot-geometry.ts'

/** The limit is drawn up to so many times the largest column: above, the columns would be too small to read. */
const maxLimitRatio = 4

/** Steps of the axis of values. Not 2.5: 12.5K would be written as 13K. */
const valueSteps = Array.from({ length: 18 }, (_, i) => [1, 2, 5].map(digit => digit * 10 ** (i - 3))).flat()

/** Of the width of a step. */
const columnShare = 0.8

/** As uPlot takes them. Of stacked columns, each is drawn over the sum of all below it: the last one first. */
const toData = (props: PlotProps): uPlot.AlignedData => {
  const { times, series, kind } = props
  const seconds = times.map(time => Date.parse(time) / 1_000)
  if (kind === 'lines') return [seconds, ...linePartsOf(props).map(({ points }) => [...points])]
  const below = new Array<number>(times.length).fill(0)
  const stacked = series.map(({ points }) => times.map((_, i) => (below[i] = (below[i] ?? 0) + (points[i] ?? 0))))
  return [seconds, ...stacked.toReversed()]
}

const toSeriesOptions = (props: PlotProps): uPlot.Series[] =>
  props.kind === 'lines'
    ? linePartsOf(props).map(({ color, isLast }) => {
        const stroke = colorOf(color)
        return {
          ...{ stroke, width: 1.5, points: { show: false, filter: pointsAlone, size: 4, fill: stroke }, spanGaps: false },
          // Below one of several lines it would say nothing.
          ...(!isLast && props.series.length === 1 && { fill: `color-mix(in srgb, ${stroke} 12%, transparent)` }),
        }
      })
    : props.series.toReversed().map(({ color }) => {
        const paths = uPlot.paths.bars!({ size: [columnShare], align: 1 })
        return { fill: colorOf(color), width: 0, points: { show: false }, paths }
      })

/** Of a line, those without a neighbor: nothing else would be seen of them. */
const pointsAlone: uPlot.Series.Points.Filter = ({ data }, seriesIndex) => {
  const values = data[seriesIndex] ?? []
  const isKnown = (i: number): boolean => (values[i] ?? null) !== null
  const alone = Array.from(values, (_, i) => i).filter(i => isKnown(i) && !isKnown(i - 1) && !isKnown(i + 1))
  return alone.length === 0 ? null : alone
}

const createPlot = (element: HTMLElement, latest: { readonly current: PlotProps }): uPlot => {
  const { stepMs, kind } = latest.current
  const stepSeconds = stepMs / 1_000
  const color = colorOf('muted')
  const font = `12px ${getComputedStyle(element).fontFamily}`
  const axis = { font, stroke: color, grid: { stroke: `color-mix(in srgb, ${color} 15%, transparent)`, width: 1 }, ticks: { show: false } }
  /** A column begins at its time, and is as wide as a step; of a line it is the point that is nearest. */
  const indexAt = (plot: uPlot, left = -1): number | undefined => {
    const index = kind === 'lines' ? plot.posToIdx(left) : Math.floor((plot.posToVal(left, 'x') - (plot.data[0][0] ?? 0)) / stepSeconds)
    return left < 0 || index < 0 || index >= plot.data[0].length ? undefined : index
  }
  const pick = (from: number | undefined, to: number | undefined): void => {
    if (from !== undefined && to !== undefined) latest.current.onPick?.(from, to + 1)
  }
  const options: uPlot.Options = {
    width: element.clientWidth,
    height: plotHeightPx(latest.current),
    // Room for half of the last time.
    padding: [8, 26, 0, 0],
    tzDate: time => uPlot.tzDate(new Date(time * 1_000), 'UTC'),
    legend: { show: false },
    cursor: { y: false, points: { show: kind === 'lines', size: 6 }, drag: { x: latest.current.onPick !== undefined, setScale: false } },
    select: { show: latest.current.onPick !== undefined, left: 0, top: 0, width: 0, height: 0 },
    hooks: {
      ready: [plot => plot.over.addEventListener('click', () => pick(indexAt(plot, plot.cursor.left), indexAt(plot, plot.cursor.left)))],
      setCursor: [plot => latest.current.onPoint(indexAt(plot, plot.cursor.left))],
      setSelect: [
        plot => {
          const { left, width } = plot.select
          if (width === 0) return
          pick(indexAt(plot, Math.max(0, left)), indexAt(plot, Math.min(left + width, plot.over.clientWidth - 1)))
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
        },
      ],
      drawClear: [plot => drawGround(plot, latest.current, color)],
      draw: [
        plot => {
          if (kind !== 'columns') return drawLimit(plot, latest.current, color)
          const { isRunning, isFirstPart } = latest.current
          raiseFailures(plot, latest.current, stepSeconds)
          if (isFirstPart) stripe(plot, 0, stepSeconds)
          if (isRunning) stripe(plot, plot.data[0].length - 1, stepSeconds)
          drawLimit(plot, latest.current, color)
        },
      ],
    },
    axes: [
      {
        ...axis,
        // Below the zero of the other axis.
        ...{ size: 34, gap: 11 },
        space: (_, __, from, to) => timeSpaceOf(to - from),
        incrs: (_, __, from, to) => timeStepsOf(to - from, stepSeconds),
        values: (_, values, __, ___, tickSeconds) => values.map(value => formatTick(value, stepSeconds, tickSeconds)),
      },
      {
        ...axis,
        size: axisWidthPx,
        space: 24,
        incrs: valueSteps,
        values: (_, values) => values.map(value => latest.current.formatValue(value)),
      },
    ],
    scales: {
      // uPlot would make a day of a single point.
      x: { range: (_, min, max) => (latest.current.times.length === 0 ? [min, max] : timeRangeOf(latest.current)) },
      y: { range: (_, __, max) => [0, Math.max(shownLimit(latest.current, max)?.value ?? 0, latest.current.least ?? 0, max) * 1.1 || 1] },
    },
    series: [{}, ...toSeriesOptions(latest.current)],
  }
  return new uPlot(options, toData(latest.current), element)
}

const shownLimit = ({ limit }: PlotProps, max: number): ChartLimit | undefined =>
  limit !== undefined && limit.value <= maxLimitRatio * max ? limit : undefined

/** Of the stripes of a column that is not over yet, in px of the page. */
const [stripeStep, stripeWidth] = [6, 2]

/** A column that is not whole is cut into stripes: the colors of its parts stay what they are, in both themes. */
const stripe = ({ ctx, bbox, data, valToPos }: uPlot, index: number, widthSeconds: number): void => {
  const start = data[0][index]
  if (start === undefined) return
  const bottom = bbox.top + bbox.height
  // The first series is drawn over the sum of all.
  const top = valToPos(data[1]?.[index] ?? 0, 'y', true)
  const [left, right] = [valToPos(start, 'x', true), valToPos(start + widthSeconds, 'x', true)]
  ctx.save()
  ctx.beginPath()
  ctx.rect(left, top, right - left, bottom - top)
  ctx.clip()
  ctx.globalCompositeOperation = 'destination-out'
  ctx.strokeStyle = 'black' // any that is opaque
  ctx.lineWidth = stripeWidth * uPlot.pxRatio
  ctx.beginPath()
  for (let x = left - (bottom - top); x < right; x += stripeStep * uPlot.pxRatio) {
    ctx.moveTo(x, bottom)
    ctx.lineTo(x + bottom - top, top)
  }
  ctx.stroke()
  ctx.restore()
}

/** Failed calls stand below the others; however few they are, they are seen. */
const raiseFailures = ({ ctx, bbox, data, valToPos }: uPlot, { times, series }: PlotProps, stepSeconds: number): void => {
  const [lowest] = series
  if (lowest === undefined || !isFailure(lowest)) return
  const bottom = bbox.top + bbox.height
  ctx.save()
  ctx.fillStyle = colorOf(lowest.color)
  lowest.points.forEach((value, i) => {
    if (!value) return
    const heightOf = (calls: number): number => bottom - valToPos(calls, 'y', true)
    const heightPx = failuresHeight(heightOf(value), heightOf(data[1]?.[i] ?? 0), uPlot.pxRatio)
    const start = Date.parse(times[i] ?? '') / 1_000
    const left = valToPos(start, 'x', true)
    ctx.fillRect(left, bottom - heightPx, columnShare * (valToPos(start + stepSeconds, 'x', true) - left), heightPx)
  })
  ctx.restore()
}

/** Below everything else. */
const drawGround = ({ ctx, bbox, valToPos }: uPlot, { grayUntil }: PlotProps, color: string): void => {
  if (grayUntil === undefined) return
  const right = Math.min(bbox.left + bbox.width, valToPos(Date.parse(grayUntil) / 1_000, 'x', true))
  ctx.save()
  ctx.fillStyle = `color-mix(in srgb, ${color} 14%, transparent)`
  ctx.fillRect(bbox.left, bbox.top, Math.max(0, right - bbox.left), bbox.height)
  ctx.restore()
}

const drawLimit = (plot: uPlot, props: PlotProps, color: string): void => {
  const limit = shownLimit(props, plot.scales['y']?.max ?? 0)
  if (limit === undefined) return
  const { ctx, bbox } = plot
  const y = plot.valToPos(limit.value, 'y', true)
  ctx.save()
  ctx.strokeStyle = color
  ctx.fillStyle = color
  ctx.lineWidth = uPlot.pxRatio
  ctx.setLineDash([6 * uPlot.pxRatio, 4 * uPlot.pxRatio])
  ctx.beginPath()
  ctx.moveTo(bbox.left, y)
  ctx.lineTo(bbox.left + bbox.width, y)
  ctx.stroke()
  ctx.textAlign = 'right'
  ctx.textBaseline = 'bottom'
  ctx.font = `${12 * uPlot.pxRatio}px ${getComputedStyle(document.body).fontFamily}`
  ctx.fillText(limit.label, bbox.left + bbox.width, y - 2 * uPlot.pxRatio)
  ctx.restore()
}

/** The figures as a drawing. The arrows go from point to point, and Enter chooses one. */
export const Plot = (props: PlotProps) => {
  const { label, times, series, kind, pointed, describe, onPoint, onPick } = props
  const holder = useRef<HTMLDivElement>(null)
  const shown = useRef<uPlot>(null)
  const latest = useRef(props)
  latest.current = props
  const shape = `${kind} ${times[0]} ${times.length} ${series.map(({ id, color }) => `${id} ${color}`).join()} ${onPick === undefined} ${props.isRunning} ${props.isFirstPart}`
  const drawn = useRef(series)
  // Before the browser draws: the figures around it and the plot appear together.
  useLayoutEffect(() => {
    const element = holder.current
    if (element === null) return
    const plot = createPlot(element, latest)
    shown.current = plot
    drawn.current = series
    const observer = new ResizeObserver(() => {
      // It begins with the size that the plot has.
      if (plot.width !== element.clientWidth) plot.setSize({ width: element.clientWidth, height: plotHeightPx(latest.current) })
    })
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
      shown.current = null
    }
  }, [shape, theme.value])
  // New figures come every second: the pointer stays where it is.
  useEffect(() => {
    if (drawn.current === series) return
    drawn.current = series
    shown.current?.setData(toData(latest.current))
  }, [series])
  const moveTo = (index: number): void => {
    const plot = shown.current
    const start = plot?.data[0][index]
    if (plot === null || start === undefined) return
    const left = plot.valToPos(kind === 'lines' ? start : start + props.stepMs / 2_000, 'x')
    // Without the hook: what a position stands for was asked for here.
    plot.setCursor({ left, top: plotHeightPx(props) / 4 }, false)
    onPoint(index)
  }
  const move = (event: KeyboardEvent): void => {
    const current = pointed ?? times.length
    const next = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: times.length - 1 }[event.key]
    if (event.key === 'Enter' && pointed !== undefined) onPick?.(pointed, pointed + 1)
    if (next === undefined) return
    event.preventDefault()
    moveTo(Math.min(times.length - 1, Math.max(0, next)))
  }
  return (
    <div
      ref={holder}
      class={onPick === undefined ? 'plot' : 'plot choosable'}
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={times.length - 1}
      aria-valuenow={pointed ?? times.length - 1}
      aria-valuetext={describe(pointed ?? times.length - 1)}
      onKeyDown={move}
      onBlur={() => onPoint(undefined)}
    />
  )
}
