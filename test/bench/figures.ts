import type { ScenarioResult } from './measure.ts'
import { ratioOf, spreadOf } from './stats.ts'
import type { Spread } from './stats.ts'

/** One figure that the benchmark is about. */
export interface Figure {
  readonly title: string
  /** `×` alone is a ratio to another lane. */
  readonly unit: '×' | '× the answer' | 'ms' | 'µs' | 'MB' | '%'
  /** Absent when it cannot be measured here. */
  readonly value?: Spread
  /** The most it should be; absent when it only stands beside others. */
  readonly target?: number
}

export const createFigure = (title: string, unit: Figure['unit'], value: Spread | undefined, target?: number): Figure => ({
  title,
  unit,
  ...(value === undefined ? {} : { value }),
  ...(target === undefined ? {} : { target }),
})

/** CPU per call of one lane as a multiple of another's in the same rounds. */
export const cpuRatio = (rows: readonly ScenarioResult[], of: string, to: string, target?: number): Figure =>
  createFigure(`CPU of ${of} / ${to}`, '×', ratioOf(cpuMicrosOfRounds(rows, of), cpuMicrosOfRounds(rows, to)), target)

const cpuMicrosOfRounds = (rows: readonly ScenarioResult[], name: string): readonly (number | undefined)[] =>
  rows.find(row => row.name === name)?.rounds.map(round => round.cpuMicrosPerCall) ?? []

/** The longest time for which the event loop was held up in a round. */
export const longestLoopBlock = (rows: readonly ScenarioResult[], of: string, target?: number): Figure =>
  createFigure(`longest event-loop block of ${of}`, 'ms', spreadOf(roundsOf(rows, of).map(round => round.loopMax)), target)

/** Memory at its peak, above that at rest, as a multiple of the answer's length. */
export const peakMemoryPerResponse = (rows: readonly ScenarioResult[], of: string, target?: number): Figure => {
  const idleRssMB = rows.find(row => row.name === of)?.idleRssMB
  const multiples = roundsOf(rows, of).map(({ peakRssMB: peak, responseMB: size }) =>
    peak === undefined || idleRssMB === undefined ? undefined : (peak - idleRssMB) / size,
  )
  return createFigure(`peak memory of ${of} above rest`, '× the answer', spreadOf(multiples), target)
}

const roundsOf = (rows: readonly ScenarioResult[], name: string) => rows.find(row => row.name === name)?.rounds ?? []
