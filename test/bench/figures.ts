import type { ScenarioResult } from './measure.ts'

/** A figure of the benchmark, with its target. */
export interface Figure {
  readonly title: string
  /** `×` alone is a ratio to another scenario. */
  readonly unit: '×' | '× the response' | 'calls' | 'ms' | 'µs' | 'KB' | 'MB' | '%'
  /** Absent where this system cannot measure it. */
  readonly value?: Spread
  /** The maximum; absent for a figure that is only shown for comparison. */
  readonly target?: number
}

export const createFigure = (title: string, unit: Figure['unit'], value: Spread | undefined, target?: number): Figure => ({
  title,
  unit,
  ...(value === undefined ? {} : { value }),
  ...(target === undefined ? {} : { target }),
})

/** CPU per call of one scenario, as a multiple of that of another in the same rounds. */
export const cpuRatio = (rows: readonly ScenarioResult[], of: string, to: string, target?: number): Figure =>
  createFigure(`CPU of ${of} / ${to}`, '×', ratioOf(cpuMicrosOfRounds(rows, of), cpuMicrosOfRounds(rows, to)), target)

/** The p99 of the latency of one scenario, as a multiple of that of another in the same rounds. */
export const p99Ratio = (rows: readonly ScenarioResult[], of: string, to: string, target?: number): Figure => {
  const p99s = (name: string) => roundsOf(rows, name).map(({ p99 }) => p99)
  return createFigure(`p99 of ${of} / ${to}`, '×', ratioOf(p99s(of), p99s(to)), target)
}

/** How much more CPU a call takes in one scenario than in another, as a multiple of how much more it takes in two others. */
export const cpuRatioBeside = (
  rows: readonly ScenarioResult[],
  title: string,
  [of, to, besideOf, besideTo]: readonly [of: string, to: string, besideOf: string, besideTo: string],
  target?: number,
): Figure => {
  const ratios = (one: string, other: string) => {
    const base = cpuMicrosOfRounds(rows, other)
    return cpuMicrosOfRounds(rows, one).map((value, i) => divide(value, base[i]))
  }
  return createFigure(title, '×', ratioOf(ratios(of, to), ratios(besideOf, besideTo)), target)
}

/** CPU per call of one scenario above that of another in the same rounds. */
export const cpuDifference = (rows: readonly ScenarioResult[], of: string, above: string): Figure => {
  const base = cpuMicrosOfRounds(rows, above)
  const differences = cpuMicrosOfRounds(rows, of).map((value, i) => subtract(value, base[i]))
  return createFigure(`CPU of ${of}, above ${above}`, 'µs', spreadOf(differences))
}

const subtract = (value: number | undefined, subtracted: number | undefined): number | undefined =>
  value === undefined || subtracted === undefined ? undefined : value - subtracted

const cpuMicrosOfRounds = (rows: readonly ScenarioResult[], name: string): readonly (number | undefined)[] =>
  rows.find(row => row.name === name)?.rounds.map(round => round.cpuMicrosPerCall) ?? []

/** The longest block of the event loop in a round. */
export const longestLoopBlock = (rows: readonly ScenarioResult[], of: string, target?: number): Figure =>
  createFigure(`longest event-loop block of ${of}`, 'ms', spreadOf(roundsOf(rows, of).map(round => round.loopMax)), target)

/** Peak memory minus idle memory, as a multiple of the length of the response. */
export const peakMemoryPerResponse = (rows: readonly ScenarioResult[], of: string, target?: number): Figure => {
  const idleRssMB = rows.find(row => row.name === of)?.idleRssMB
  const multiples = roundsOf(rows, of).map(({ peakRssMB, responseMB }) =>
    peakRssMB === undefined || idleRssMB === undefined ? undefined : (peakRssMB - idleRssMB) / responseMB,
  )
  return createFigure(`peak memory of ${of} above idle`, '× the response', spreadOf(multiples), target)
}

const roundsOf = (rows: readonly ScenarioResult[], name: string) => rows.find(row => row.name === name)?.rounds ?? []

/** Median, minimum and maximum of several measurements. */
export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** One value per round, where it could be measured. */
export type RoundValues = readonly (number | undefined)[]

/** Undefined where nothing was measured. */
export const spreadOf = (values: RoundValues): Spread | undefined => {
  const sorted = values.filter(value => value !== undefined).sort((one, other) => one - other)
  const [min, max] = [sorted[0], sorted.at(-1)]
  if (min === undefined || max === undefined) return undefined
  const middle = sorted.length / 2
  const median = ((sorted[Math.ceil(middle) - 1] ?? min) + (sorted[Math.floor(middle)] ?? max)) / 2
  return { median, min, max }
}

/** The ratio of the medians; its spread is that of the ratios within each round, measured under the same load of the machine. */
export const ratioOf = (of: RoundValues, to: RoundValues): Spread | undefined => {
  const [numerator, denominator] = [spreadOf(of), spreadOf(to)]
  const ratios = spreadOf(of.map((value, i) => divide(value, to[i])))
  if (numerator === undefined || denominator === undefined || ratios === undefined) return undefined
  return { ...ratios, median: numerator.median / denominator.median }
}

const divide = (numerator: number | undefined, denominator: number | undefined): number | undefined =>
  numerator === undefined || denominator === undefined ? undefined : numerator / denominator
