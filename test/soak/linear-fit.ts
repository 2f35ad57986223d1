/** A measured value, at so many minutes. */
export interface Sample {
  readonly minute: number
  readonly value: number
}

/** Of the straight line that fits points best, for each minute; and twice its standard error, which tells growth from noise. */
export interface LinearFit {
  readonly slopePerMinute: number
  readonly marginPerMinute: number
}

/** Of three points at least. */
export const fitLine = (points: readonly Sample[]): LinearFit => {
  const mean = (of: (point: Sample) => number) => points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [x, y] = [mean(({ minute }) => minute), mean(({ value }) => value)]
  const spread = mean(({ minute }) => (minute - x) ** 2)
  const rise = mean(({ minute, value }) => (minute - x) * (value - y)) / spread
  const rest = mean(({ minute, value }) => (value - y - rise * (minute - x)) ** 2)
  return { slopePerMinute: rise, marginPerMinute: 2 * Math.sqrt(rest / (points.length - 2) / spread) }
}
