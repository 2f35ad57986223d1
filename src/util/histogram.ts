/**
 * A quantile of a histogram, as histogram_quantile() of Prometheus estimates it. `counts` are cumulative, one for each of the upper
 * `bounds`, the last of which is Infinity. Undefined without observations.
 */
export const estimateQuantile = (bounds: readonly number[], counts: readonly number[], quantile: number): number | undefined => {
  const total = counts.at(-1) ?? 0
  if (total === 0) return undefined
  const rank = quantile * total
  const i = counts.findIndex(count => count >= rank)
  const lower = bounds[i - 1] ?? 0
  const upper = bounds[i] ?? Infinity
  // Above the last bound nothing is known but that it is more.
  if (upper === Infinity) return lower
  const countBelow = counts[i - 1] ?? 0
  return lower + (upper - lower) * ((rank - countBelow) / ((counts[i] ?? 0) - countBelow))
}
