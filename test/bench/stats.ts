/** The middle one of several measurements, and the outermost. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** One value per round, where it could be measured. */
export type RoundValues = readonly (number | undefined)[]

/** Undefined when nothing was measured. */
export const spreadOf = (values: RoundValues): Spread | undefined => {
  const sorted = values.filter(value => value !== undefined).sort((one, other) => one - other)
  const [least, most] = [sorted[0], sorted.at(-1)]
  if (least === undefined || most === undefined) return undefined
  const middle = sorted.length / 2
  const median = ((sorted[Math.ceil(middle) - 1] ?? least) + (sorted[Math.floor(middle)] ?? most)) / 2
  return { median, min: least, max: most }
}

/** The ratio of the medians; its spread is that of the ratios within each round, where both had the same machine. */
export const ratioOf = (of: RoundValues, to: RoundValues): Spread | undefined => {
  const [above, below] = [spreadOf(of), spreadOf(to)]
  const each = spreadOf(of.map((value, i) => divide(value, to[i])))
  if (above === undefined || below === undefined || each === undefined) return undefined
  return { ...each, median: above.median / below.median }
}

const divide = (above: number | undefined, below: number | undefined): number | undefined =>
  above === undefined || below === undefined ? undefined : above / below
