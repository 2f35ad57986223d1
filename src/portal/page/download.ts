import type { Usage, UsageSeries } from './api.ts'
import { toCsvField } from './csv.ts'

export const downloadJson = (usage: Usage): void =>
  save(`usage-by-${usage.by}.json`, 'application/json', JSON.stringify(usage, undefined, 2))

export const downloadCsv = (usage: Usage, nameOf: (series: UsageSeries) => string): void => {
  const rows = usage.groups.map(series => [nameOf(series), series.calls, series.credits, series.forwarded])
  const lines = [[usage.by, 'calls', 'credits', 'forwarded'], ...rows].map(row => row.map(toCsvField).join(','))
  save(`usage-by-${usage.by}.csv`, 'text/csv', `${lines.join('\r\n')}\r\n`)
}

const save = (name: string, type: string, text: string): void => {
  const url = URL.createObjectURL(new Blob([text], { type }))
  const link = Object.assign(document.createElement('a'), { href: url, download: name })
  link.click()
  URL.revokeObjectURL(url)
}
