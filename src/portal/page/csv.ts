/** RFC 4180. A spreadsheet would run a text that begins like a formula: the apostrophe makes it a text. */
export const toCsvField = (value: string | number): string => {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
