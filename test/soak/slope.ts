/** A measured value, at so many minutes. */
export interface Point {
  readonly minute: number
  readonly value: number
}

/** Of the straight line that fits points best, for each minute; and twice its standard error, which tells growth from noise. */
export interface Slope {
  readonly rise: number
  readonly doubt: number
}

/** Of three points at least. */
export const slopeOf = (points: readonly Point[]): Slope => {
  const mean = (of: (point: Point) => number) => points.reduce((sum, point) => sum + of(point), 0) / points.length
  const [x, y] = [mean(({ minute }) => minute), mean(({ value }) => value)]
  const spread = mean(({ minute }) => (minute - x) ** 2)
  const rise = mean(({ minute, value }) => (minute - x) * (value - y)) / spread
  const rest = mean(({ minute, value }) => (value - y - rise * (minute - x)) ** 2)
  return { rise, doubt: 2 * Math.sqrt(rest / (points.length - 2) / spread) }
}
