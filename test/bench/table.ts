import type { Case, Outcome } from './cases.ts'
import type { Figure } from './figures.ts'
import type { Round, Row } from './measure.ts'
import { spreadOf } from './stats.ts'
import type { Spread } from './stats.ts'

/** One case as lines of text: what each lane did, then the figures with their targets. Medians over the rounds. */
export const tabulate = ({ title, name }: Case, { rows, figures }: Outcome): string => {
  const lanes = rows.map(row => columns.map(({ cell }) => cell(row)))
  return [
    `${title}  [${name}]`,
    ...(rows.length === 0 ? [] : align([columns.map(({ head }) => head), ...lanes])),
    ...align(figures.map(figure => [figure.title, ...verdictOf(figure)])).map(line => `  ${line}`),
    '',
  ].join('\n')
}

interface Column {
  readonly head: string
  cell(row: Row): string
}

const columns: readonly Column[] = [
  { head: '', cell: row => row.name },
  { head: 'calls/s', cell: row => number(median(row, 'callsPerSecond'), 0) },
  { head: 'p50 ms', cell: row => number(median(row, 'p50'), 2) },
  { head: 'p99 ms', cell: row => number(median(row, 'p99'), 2) },
  { head: 'CPU us/call', cell: row => number(median(row, 'cpu'), 1) },
  { head: '(least-most)', cell: row => range(spreadOf(row.rounds.map(round => round.cpu)), 1) },
  { head: 'loop p99 ms', cell: row => number(median(row, 'loopP99'), 1) },
  { head: 'max ms', cell: row => number(median(row, 'loopMax'), 1) },
  { head: 'GC %', cell: row => number(median(row, 'collecting', 100), 1) },
  { head: 'MB at rest', cell: row => number(row.rest, 0) },
  { head: 'peak', cell: row => number(median(row, 'peak'), 0) },
]

const median = ({ rounds }: Row, of: keyof Round, times = 1): number | undefined => {
  const value = spreadOf(rounds.map(round => round[of]))?.median
  return value === undefined ? undefined : value * times
}

const verdictOf = ({ value, unit, target }: Figure): readonly string[] => {
  const most = target === undefined ? '' : `at most ${target} ${unit}`
  if (value === undefined) return ['not measured', '', most]
  const digits = unit.startsWith('×') ? 2 : value.median < 100 ? 1 : 0
  const verdict = target === undefined ? '' : value.median <= target ? 'met' : 'MISSED'
  return [`${number(value.median, digits)} ${unit}`, range(value, digits), most, verdict]
}

const range = (spread: Spread | undefined, digits: number): string =>
  spread === undefined || spread.least === spread.most ? '' : `(${number(spread.least, digits)}-${number(spread.most, digits)})`

const number = (value: number | undefined, digits: number): string =>
  value === undefined ? '-' : value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })

/** Names to the left, numbers to the right. */
const align = (lines: readonly (readonly string[])[]): readonly string[] => {
  const widths: number[] = []
  for (const line of lines)
    line.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.length)
    })
  const pad = (cell: string, i: number) => (i === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[i] ?? 0))
  return lines.map(line => `  ${line.map(pad).join('  ')}`.trimEnd())
}
