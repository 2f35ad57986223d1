// What a chart and its drawing, which is loaded later, both need.

/** What a chart shows over time. */
export interface ChartSeries {
  readonly id: string
  readonly name: string
  /** Of design/tokens.css. */
  readonly color: string
  /** Null: nothing is known of that time. */
  readonly points: readonly (number | null)[]
  /** The value of all points together, where it is not that of the last one that counts. */
  readonly ofRange?: number | null
}

/** By its color: those of failed calls begin so. */
export const isFailure = ({ color }: Pick<ChartSeries, 'color'>): boolean => color.startsWith('failed-')

export interface ChartLimit {
  readonly label: string
  readonly value: number
}

export interface PlotProps {
  /** What it shows, for those who do not see it. */
  readonly label: string
  /** The beginning of each point, ISO 8601. */
  readonly times: readonly string[]
  /** Of a point. */
  readonly stepMs: number
  /** The first one stands below the others. */
  readonly series: readonly ChartSeries[]
  readonly kind: 'columns' | 'lines'
  /** Lower, for several beside each other. */
  readonly isCompact: boolean
  /** A line, which is drawn where it is not far above everything else. */
  readonly limit?: ChartLimit | undefined
  /** See ChartProps. */
  readonly rangeMs?: number | undefined
  /** See ChartProps. */
  readonly least?: number | undefined
  /** See ChartProps. */
  readonly grayUntil?: string | undefined
  /** The last point is not over yet. */
  readonly isRunning: boolean
  /** The first column is of a part of its time. */
  readonly isFirstPart: boolean
  /** The point below the pointer, or that the arrows have come to. */
  readonly pointed: number | undefined
  /** Of a value, on its axis. */
  formatValue(value: number): string
  /** What the point says, in words. */
  describe(index: number): string
  onPoint(index: number | undefined): void
  /** Chooses the points from `from` up to, not including, `to`: by a click, Enter, or dragging over several. */
  onPick?: ((from: number, to: number) => void) | undefined
}

const heightPx = 220
const compactHeightPx = 150
/** As --axis-width in design/tables.css. */
export const axisWidthPx = 52

export const plotHeightPx = ({ isCompact }: Pick<PlotProps, 'isCompact'>): number => (isCompact ? compactHeightPx : heightPx)

/** What one stroke of a line goes through. */
interface LinePart {
  readonly color: string
  readonly points: readonly (number | null)[]
  /** The point that is not over yet. */
  readonly isLast: boolean
}

/** Of each line what is over, and apart from it its last point where that is not over yet: few calls are no fall or rise. */
export const linePartsOf = ({ series, isRunning }: Pick<PlotProps, 'series' | 'isRunning'>): readonly LinePart[] =>
  series.flatMap(({ color, points }): readonly LinePart[] =>
    isRunning
      ? [
          { color, points: points.map((point, i) => (i === points.length - 1 ? null : point)), isLast: false },
          { color, points: points.map((point, i) => (i === points.length - 1 ? point : null)), isLast: true },
        ]
      : [{ color, points, isLast: false }],
  )

/** However few failed calls are, so much of them is seen. */
const minFailuresPx = 3

/** How high failed calls stand in a column of all calls: in a low one at most half, unless all have failed. In px of the screen, as are the heights. */
export const failuresHeight = (failedPx: number, allPx: number, pxRatio: number): number => {
  const least = minFailuresPx * pxRatio
  return Math.max(failedPx, failedPx === allPx ? least : Math.min(least, Math.max(pxRatio, allPx / 2)))
}

type TimeAxis = Pick<PlotProps, 'times' | 'stepMs' | 'kind' | 'rangeMs'>

const secondsOf = (time: string | undefined): number => Date.parse(time ?? '') / 1_000

/** Where the axis of time begins and ends, in seconds. That of lines ends at the last point, and is as long as the range; else a step at least. */
export const timeRangeOf = ({ times, stepMs, kind, rangeMs = stepMs }: TimeAxis): [from: number, to: number] => {
  const [first, last] = [secondsOf(times[0]), secondsOf(times.at(-1))]
  return kind === 'lines' ? [Math.min(first, last - rangeMs / 1_000), last] : [first, last + stepMs / 1_000]
}

/** Where a point, or the middle of a column, stands, from the left of the plot, as a share of its width. */
export const shareOf = (axis: TimeAxis, index: number): number => {
  const [from, to] = timeRangeOf(axis)
  const half = axis.kind === 'lines' ? 0 : axis.stepMs / 2_000
  return (secondsOf(axis.times[index]) + half - from) / (to - from)
}

/** Those of which something is drawn: the name of another would be looked for in vain. All, where that is none. */
export const withoutEmpty = (series: readonly ChartSeries[], kind: PlotProps['kind']): readonly ChartSeries[] => {
  const found = series.filter(({ points }) => points.some(value => value !== null && (kind === 'lines' || value !== 0)))
  return found.length === 0 ? series : found
}
