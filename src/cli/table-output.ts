import { nodeReasons } from '../services/node-reasons.ts'
import { plain } from '../util/style.ts'
import type { Meaning, Style } from '../util/style.ts'

/** Rows below their headers; each column is as wide as its longest cell. States and outcomes have the color of their meaning. */
export const formatTable = (headers: readonly string[], rows: readonly (readonly string[])[], style = plain): readonly string[] => {
  const widths = headers.map((header, column) => maxLength([header, ...rows.map(row => row[column] ?? '')]))
  const format = (cells: readonly string[], styleCell: (cell: string, column: number) => string): string =>
    cells
      .map((cell, column) => styleCell(cell, column) + ' '.repeat(Math.max(0, (widths[column] ?? 0) - cell.length)))
      .join('  ')
      .trimEnd()
  return [
    format(headers, cell => style('title', cell)),
    ...rows.map(row =>
      format(row, (cell, column) => (stateNames.has(headers[column]?.toLowerCase() ?? '') ? styleState(cell, style) : cell)),
    ),
  ]
}

/** The columns and fields that say how something is. */
const stateNames = new Set(['state', 'outcome'])

/** By the word that a state begins with; another has none. */
const stateMeanings: Readonly<Record<string, Meaning>> = {
  ...Object.fromEntries(Object.entries(nodeReasons).map(([reason, { keepsAway }]) => [reason, keepsAway ? 'error' : 'warning'])),
  ok: 'ok',
  active: 'ok',
  delivered: 'ok',
  suspended: 'warning',
  pending: 'warning',
  revoked: 'error',
  expired: 'error',
  failed: 'error',
  down: 'error',
  no: 'error',
  unavailable: 'error',
  internal: 'error',
  timeout: 'error',
}

const styleState = (state: string, style: Style): string => {
  const meaning = stateMeanings[/^\w+/.exec(state)?.[0] ?? '']
  return meaning === undefined ? state : style(meaning, state)
}

/** One line for each field. */
export const formatFields = (values: Readonly<Record<string, string | number>>, style = plain): readonly string[] => {
  const width = maxLength(Object.keys(values))
  return Object.entries(values).map(
    ([name, value]) => `${style('title', name.padEnd(width))}  ${stateNames.has(name) ? styleState(String(value), style) : value}`,
  )
}

/** Without a function call that has them all as arguments: a table may have 200,000 rows. */
const maxLength = (texts: readonly string[]): number => texts.reduce((max, { length }) => Math.max(max, length), 0)

/** RFC 4180. A text that a spreadsheet would run as a formula gets an apostrophe in front. */
export const quoteCsvField = (text: string): string => {
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+$/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
