/** Any JSON value, as read from a message; never changed in place. */
export type Json = null | boolean | number | ExactNumber | string | readonly Json[] | { readonly [name: string]: Json }

export interface JsonObject {
  readonly [name: string]: Json
}

/** A number of a message whose digits a JavaScript number would change: 12345678901234567890, 1e400, -0, 1.0. */
export class ExactNumber {
  /** As it was written. */
  readonly source: string

  constructor(source: string) {
    this.source = source
  }

  /** The nearest JavaScript number; `Number(exact)` and comparisons take it too. */
  valueOf(): number {
    return Number(this.source)
  }

  toString(): string {
    return this.source
  }

  /** For JSON.stringify(), which cannot write the digits; stringifyJson() does. */
  toJSON(): number {
    return this.valueOf()
  }
}

/** True for `{...}`; false for arrays, numbers and null. The type of the members is the caller's to know. */
export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)

/** The JSON text of a value, with the digits of each number as they were written. */
export const stringifyJson = (value: Json): string => (hasExactNumber(value) ? stringifyExactly(value) : JSON.stringify(value))

/** The same value, in which each number is a JavaScript number, if only the nearest one. */
export const toPlainNumbers = (value: Json): Json => (hasExactNumber(value) ? replaceExactNumbers(value) : value)

/** More arrays and objects than any message has: a value that contains itself never ends. */
const maxContainers = 1_000_000

/** Without recursion: plugins may pass values of any depth. Throws RangeError for a value that contains itself. */
const hasExactNumber = (root: Json): boolean => {
  if (typeof root !== 'object' || root === null) return false
  const pending: Json[] = [root]
  let containers = 0
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if ((containers += 1) > maxContainers) throw new RangeError('a value that contains itself cannot be written as JSON')
    if (value instanceof ExactNumber) return true
    if (isJsonArray(value)) for (const item of value) pushObject(pending, item)
    else if (isJsonObject(value)) for (const name in value) pushObject(pending, value[name])
  }
  return false
}

const pushObject = (pending: Json[], value: Json | undefined): void => {
  if (typeof value === 'object' && value !== null) pending.push(value)
}

const stringifyExactly = (value: Json): string => {
  if (value instanceof ExactNumber) return value.source
  if (isJsonArray(value)) return `[${value.map(stringifyExactly).join()}]`
  if (!isJsonObject(value)) return JSON.stringify(value)
  return `{${Object.entries(value)
    .map(([name, member]) => `${JSON.stringify(name)}:${stringifyExactly(member)}`)
    .join()}}`
}

const replaceExactNumbers = (value: Json): Json => {
  if (value instanceof ExactNumber) return value.valueOf()
  if (isJsonArray(value)) return value.map(replaceExactNumbers)
  return isJsonObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, member]) => [name, replaceExactNumbers(member)]))
    : value
}

/** Array.isArray() for readonly arrays. */
export const isJsonArray = (value: unknown): value is readonly Json[] => Array.isArray(value)

/** The method of a JSON-RPC message that nothing has been checked about; undefined where it has none. */
export const methodNameOf = (message: unknown): string | undefined =>
  isJsonObject(message) && typeof message['method'] === 'string' ? message['method'] : undefined

/** A number as Ethereum's JSON-RPC writes quantities: `0x`, no leading zeros. */
export const toHexQuantity = (value: number | bigint): string => `0x${value.toString(16)}`

/** `0x` and hex digits. Nodes and callers also send leading zeros and upper case. */
const hexQuantityPattern = /^0x[0-9a-f]+$/i

/** The number in a hex quantity; undefined when the text is none, or is above 2^53 - 1. */
export const parseHexQuantity = (text: unknown): number | undefined => {
  if (typeof text !== 'string' || !hexQuantityPattern.test(text)) return undefined
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : undefined
}

/** The number in the JSON text of a hex quantity, such as `"0x1f"` with its quotes; undefined when the text is none. */
export const parseJsonHexQuantity = (json: string | undefined): number | undefined =>
  json?.startsWith('"') === true ? parseHexQuantity(json.slice(1, -1)) : undefined

/** A path inside a JSON value: property names and list positions. */
export type Path = readonly (string | number)[]
