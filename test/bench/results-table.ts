import type { Case, CaseResult } from './cases.ts'
import type { Figure } from './figures.ts'
import type { Round, ScenarioResult } from './measure.ts'
import { spreadOf } from './figures.ts'
import type { Spread } from './figures.ts'

/** A case as text: a line for each scenario, then the figures with their targets. Values are medians of the rounds. */
export const formatCaseResult = ({ title, name }: Case, { rows, figures, table = [] }: CaseResult): string => {
  const cells = rows.map(row => columns.map(({ cell }) => cell(row)))
  return [
    `${title}  [${name}]`,
    ...(rows.length === 0 ? [] : alignColumns([columns.map(({ head }) => head), ...cells])),
    ...alignColumns(table),
    ...alignColumns(figures.map(figure => [figure.title, ...formatFigure(figure)])).map(line => `  ${line}`),
    '',
  ].join('\n')
}

interface Column {
  readonly head: string
  cell(row: ScenarioResult): string
}

const columns: readonly Column[] = [
  { head: '', cell: row => row.name },
  { head: 'calls/s', cell: row => formatNumber(medianOf(row, 'callsPerSecond'), 0) },
  { head: 'p50 ms', cell: row => formatNumber(medianOf(row, 'p50'), 2) },
  { head: 'p99 ms', cell: row => formatNumber(medianOf(row, 'p99'), 2) },
  { head: 'CPU us/call', cell: row => formatNumber(medianOf(row, 'cpuMicrosPerCall'), 1) },
  { head: '(min-max)', cell: row => formatRange(spreadOf(row.rounds.map(round => round.cpuMicrosPerCall)), 1) },
  { head: 'loop p99 ms', cell: row => formatNumber(medianOf(row, 'loopP99'), 1) },
  { head: 'max ms', cell: row => formatNumber(medianOf(row, 'loopMax'), 1) },
  { head: 'GC %', cell: row => formatNumber(medianOf(row, 'gcShare', 100), 1) },
  { head: 'idle MB', cell: row => formatNumber(row.idleRssMB, 0) },
  { head: 'peak MB', cell: row => formatNumber(medianOf(row, 'peakRssMB'), 0) },
]

const medianOf = ({ rounds }: ScenarioResult, metric: keyof Round, factor = 1): number | undefined => {
  const value = spreadOf(rounds.map(round => round[metric]))?.median
  return value === undefined ? undefined : value * factor
}

const formatFigure = ({ value, unit, target }: Figure): readonly string[] => {
  const targetText = target === undefined ? '' : `at most ${target} ${unit}`
  if (value === undefined) return ['not measured', '', targetText]
  const digits = unit.startsWith('×') ? 2 : value.median < 100 ? 1 : 0
  const outcome = target === undefined ? '' : value.median <= target ? 'met' : 'MISSED'
  return [`${formatNumber(value.median, digits)} ${unit}`, formatRange(value, digits), targetText, outcome]
}

const formatRange = (spread: Spread | undefined, digits: number): string =>
  spread === undefined || spread.min === spread.max ? '' : `(${formatNumber(spread.min, digits)}-${formatNumber(spread.max, digits)})`

const formatNumber = (value: number | undefined, digits: number): string =>
  value === undefined ? '-' : value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })

/** Names are aligned left, numbers right. */
const alignColumns = (lines: readonly (readonly string[])[]): readonly string[] => {
  const widths: number[] = []
  for (const line of lines)
    line.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, cell.length)
    })
  const pad = (cell: string, i: number) => (i === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[i] ?? 0))
  return lines.map(line => `  ${line.map(pad).join('  ')}`.trimEnd())
}
