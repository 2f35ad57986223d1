/** A measured value. */
export interface Sample {
  readonly minute: number
  readonly value: number
}

/** The slope of a series, and the ends of its confidence interval, per minute. */
export interface Growth {
  readonly slope: number
  readonly lower: number
  readonly upper: number
}

/**
 * `leak`: the slope is above the limit, also at the lower end of its confidence interval. `no slope`: it is not above the limit, also at
 * the upper end. `undecided`: the limit is inside the interval, or there are too few samples: a longer run decides.
 */
export type LeakDecision = 'leak' | 'no slope' | 'undecided'

/** Standard errors of a normal distribution that 99 of 100 values are within. */
const confidenceErrors = 2.576

const minSamples = 10

/**
 * The Theil-Sen slope over the second half of a run: modules, caches, connections and pools are there by then. It is the median of the
 * slopes between all pairs of samples, so that single samples far off, as V8 and the allocator return memory late, change nothing. The
 * interval is Sen's, from the variance of Kendall's rank correlation: it supposes no distribution of the noise.
 */
export const growthOf = (samples: readonly Sample[], minutes: number): Growth => {
  const points = samples.filter(({ minute }) => minute >= minutes / 2)
  const count = points.length
  if (count < minSamples) return { slope: 0, lower: -Infinity, upper: Infinity }
  const slopes = points
    .flatMap((first, i) => points.slice(i + 1).map(second => (second.value - first.value) / (second.minute - first.minute)))
    .sort((a, b) => a - b)
  const halfWidth = (confidenceErrors * Math.sqrt((count * (count - 1) * (2 * count + 5)) / 18)) / 2
  const at = (rank: number) => slopes[Math.min(slopes.length - 1, Math.max(0, Math.round(rank)))] ?? 0
  const middle = (slopes.length - 1) / 2
  return { slope: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2, lower: at(middle - halfWidth), upper: at(middle + halfWidth) }
}

export const judge = ({ lower, upper }: Growth, maxSlope: number): LeakDecision => {
  if (lower > maxSlope) return 'leak'
  return upper <= maxSlope ? 'no slope' : 'undecided'
}

/** One leak is a leak; one series without a decision leaves the run without one. */
export const combineDecisions = (decisions: readonly LeakDecision[]): LeakDecision =>
  decisions.find(each => each === 'leak') ?? decisions.find(each => each === 'undecided') ?? 'no slope'
