/** Rows below their headers; each column is as wide as its longest cell. */
export const formatTable = (headers: readonly string[], rows: readonly (readonly string[])[]): readonly string[] => {
  const all = [headers, ...rows]
  const widths = headers.map((_, column) => maxLength(all.map(row => row[column] ?? '')))
  return all.map(row =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** One line for each field. */
export const formatFields = (values: Readonly<Record<string, string | number>>): readonly string[] => {
  const width = maxLength(Object.keys(values))
  return Object.entries(values).map(([name, value]) => `${name.padEnd(width)}  ${value}`)
}

/** Without a function call that has them all as arguments: a table may have 200,000 rows. */
const maxLength = (texts: readonly string[]): number => texts.reduce((max, { length }) => Math.max(max, length), 0)

/** RFC 4180. A text that a spreadsheet would run as a formula gets an apostrophe in front. */
export const quoteCsvField = (text: string): string => {
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+$/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
