import type { Row } from './measure.ts'
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

export const figure = (title: string, unit: Figure['unit'], value: Spread | undefined, target?: number): Figure => ({
  title,
  unit,
  ...(value === undefined ? {} : { value }),
  ...(target === undefined ? {} : { target }),
})

/** CPU per call of one lane as a multiple of another's in the same rounds. */
export const cpuRatio = (rows: readonly Row[], of: string, to: string, target?: number): Figure =>
  figure(`CPU of ${of} / ${to}`, '×', ratioOf(cpusOf(rows, of), cpusOf(rows, to)), target)

const cpusOf = (rows: readonly Row[], name: string): readonly (number | undefined)[] =>
  rows.find(row => row.name === name)?.rounds.map(round => round.cpu) ?? []

/** The longest time for which the event loop was held up in a round. */
export const longestBlock = (rows: readonly Row[], of: string, target?: number): Figure =>
  figure(`longest event-loop block of ${of}`, 'ms', spreadOf(roundsOf(rows, of).map(round => round.loopMax)), target)

/** Memory at its peak, above that at rest, as a multiple of the answer's length. */
export const memoryPerAnswer = (rows: readonly Row[], of: string, target?: number): Figure => {
  const rest = rows.find(row => row.name === of)?.rest
  const above = roundsOf(rows, of).map(({ peak, size }) => (peak === undefined || rest === undefined ? undefined : (peak - rest) / size))
  return figure(`peak memory of ${of} above rest`, '× the answer', spreadOf(above), target)
}

const roundsOf = (rows: readonly Row[], name: string) => rows.find(row => row.name === name)?.rounds ?? []
