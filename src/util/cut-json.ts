import { isJsonArray } from './json.ts'
import type { Json } from './json.ts'
import { asciiJson } from './printable-text.ts'

interface CutJson {
  readonly text: string
  /** The end is missing. */
  readonly isCut: boolean
}

/** The JSON text of a value in ASCII, or its beginning where it is longer than `maxChars`. A longer value takes no longer. */
export const cutJson = (value: Json, maxChars: number): CutJson => {
  const text = append('', value, maxChars)
  return text.length > maxChars ? { text: text.slice(0, maxChars), isCut: true } : { text, isCut: false }
}

/** Ends soon after `maxChars`. */
const append = (text: string, value: Json, maxChars: number): string => {
  if (typeof value === 'string') return text + quote(value, maxChars)
  if (typeof value !== 'object' || value === null) return text + String(value)
  return isJsonArray(value) ? appendItems(text, value, maxChars) : appendMembers(text, value, maxChars)
}

const appendItems = (text: string, items: readonly Json[], maxChars: number): string => {
  let appended = `${text}[`
  for (let i = 0; i < items.length && appended.length <= maxChars; i++) {
    if (i > 0) appended += ','
    appended = append(appended, items[i]!, maxChars)
  }
  return `${appended}]`
}

const appendMembers = (
  text: string,
  object: Exclude<Json, null | boolean | number | string | readonly Json[]>,
  maxChars: number,
): string => {
  let appended = `${text}{`
  let separator = ''
  for (const name in object) {
    if (appended.length > maxChars) break
    appended = append(`${appended}${separator}${quote(name, maxChars)}:`, object[name]!, maxChars)
    separator = ','
  }
  return `${appended}}`
}

const quote = (text: string, maxChars: number): string => {
  // One more than fits, so that the end is known to be missing.
  const start = text.length > maxChars ? text.slice(0, maxChars + 1) : text
  return asciiJson(start)
}
