import type { Usage, UsageSeries } from './api.ts'

export const downloadJson = (usage: Usage): void => saveJson(`usage-by-${usage.by}`, usage)

export const downloadCsv = (usage: Usage, nameOf: (series: UsageSeries) => string): void => {
  const rows = usage.groups.map(series => [nameOf(series), series.calls, series.credits, series.forwarded])
  saveCsv(`usage-by-${usage.by}`, [usage.by, 'calls', 'credits', 'forwarded'], rows)
}

type Row = readonly (string | number)[]

export const saveCsv = (name: string, titles: Row, rows: readonly Row[]): void => {
  const lines = [titles, ...rows].map(row => row.map(toCsvField).join(','))
  save(`${name}.csv`, 'text/csv', `${lines.join('\r\n')}\r\n`)
}

export const saveJson = (name: string, value: unknown): void =>
  save(`${name}.json`, 'application/json', JSON.stringify(value, undefined, 2))

const save = (name: string, type: string, text: string): void => {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = Object.assign(document.createElement('a'), { href: url, download: name })
  link.click()
  URL.revokeObjectURL(url)
}

/** RFC 4180. A spreadsheet would run a text that begins like a formula: the apostrophe makes it a text. */
const toCsvField = (value: string | number): string => {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
