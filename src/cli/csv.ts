/** RFC 4180. A text that a spreadsheet would run as a formula gets an apostrophe in front. */
export const quoteCsvField = (text: string): string => {
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d+$/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
