import type { ComponentChildren } from 'preact'
import type { Tone } from './badge.tsx'

interface FigureProps {
  readonly label: ComponentChildren
  readonly value: ComponentChildren
  readonly unit?: string
  /** What the figure means, below it. */
  readonly note?: ComponentChildren
  readonly tone?: Tone
  /** The one of a page that is read first is `hero`. */
  readonly size?: 'hero' | 'normal' | 'small'
  readonly testId?: string
}

const sizeClasses = { hero: ' hero', normal: '', small: ' small-figure' } as const

/** A number and what it counts. */
export const Figure = ({ label, value, unit, note, tone = 'neutral', size = 'normal', testId }: FigureProps) => (
  <div>
    <p class="figure-label">{label}</p>
    <p class={`figure${sizeClasses[size]} ${tone}`} data-testid={testId}>
      {value}
      {unit !== undefined && <span class="unit"> {unit}</span>}
    </p>
    {note !== undefined && <p class={`figure-note ${tone}`}>{note}</p>}
  </div>
)

interface BarProps {
  readonly label: string
  readonly value: number
  readonly max: number
  readonly tone?: Tone
  /** Beside a text that says the same. */
  readonly isThin?: boolean
}

/** A share of a whole. */
export const Bar = ({ label, value, max, tone = 'neutral', isThin = false }: BarProps) => {
  const share = max === 0 ? 0 : Math.min(1, Math.max(0, value / max))
  return (
    // biome-ignore lint/a11y/useSemanticElements: browsers draw <meter> each in their own way
    <div
      class={`bar ${tone}${isThin ? ' thin' : ''}`}
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={Math.min(max, value)}
    >
      <div style={{ width: `${100 * share}%` }} />
    </div>
  )
}

interface SparklineProps {
  /** What it shows, for those who do not see it. */
  readonly label: string
  /** By point of time, the oldest first. */
  readonly values: readonly number[]
}

const sparklineHeight = 20
/** Of a point, with the gap to the next. */
const pointWidth = 4

/** Small columns beside a text that has the number: when, and how evenly. */
export const Sparkline = ({ label, values }: SparklineProps) => {
  const highest = Math.max(1, ...values)
  return (
    <svg class="sparkline" role="img" aria-label={label} viewBox={`0 0 ${pointWidth * values.length} ${sparklineHeight}`}>
      {values.map((value, i) => {
        // A single call is seen too.
        const height = value === 0 ? 1 : Math.max(2, (sparklineHeight * value) / highest)
        return (
          <rect
            key={i}
            class={value === 0 ? 'none' : ''}
            x={pointWidth * i}
            y={sparklineHeight - height}
            width={pointWidth - 1}
            height={height}
          />
        )
      })}
    </svg>
  )
}

/** What most methods cost: with fewer credits, calls are refused. */
export const usualCost = 80

/** The tone of a share that has been used: as of the alerts that most accounts have. */
export const toneOfUse = (used: number, limit: number): Tone => {
  const share = limit === 0 ? 1 : used / limit
  return share >= 0.85 ? 'danger' : share >= 0.75 ? 'warn' : 'neutral'
}
