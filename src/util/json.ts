/** Any JSON value, as read from a message; never changed in place. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/** A JSON object. */
export interface JsonObject {
  readonly [name: string]: Json
}

/** True for `{...}`; false for arrays, numbers and null. The type of the members is the caller's to know. */
export const isJsonObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Plain data without what is undefined, to be stored. */
export const toJson = (data: object): Json => JSON.parse(JSON.stringify(data)) as Json // what JSON.parse() returns

/** Array.isArray() for readonly arrays. */
export const isJsonArray = (value: unknown): value is readonly Json[] => Array.isArray(value)

/** The method of a JSON-RPC message that nothing has been checked about; undefined where it has none. */
export const methodNameOf = (message: unknown): string | undefined =>
  isJsonObject(message) && typeof message['method'] === 'string' ? message['method'] : undefined

/** A number as Ethereum's JSON-RPC writes quantities: `0x`, no leading zeros. */
export const toHexQuantity = (value: number | bigint): string => `0x${value.toString(16)}`

/** `0x` and hex digits. Nodes and callers also send leading zeros and upper case. */
const hexQuantityPattern = /^0x[0-9a-f]+$/i

export const isHexQuantity = (text: string): boolean => hexQuantityPattern.test(text)

/** The number in a hex quantity; undefined when the text is none, or is above 2^53 - 1. */
export const parseHexQuantity = (text: unknown): number | undefined => {
  if (typeof text !== 'string' || !isHexQuantity(text)) return undefined
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : undefined
}

/** The number in the JSON text of a hex quantity, such as `"0x1f"` with its quotes; undefined when the text is none. */
export const parseJsonHexQuantity = (json: string | undefined): number | undefined =>
  json?.startsWith('"') === true ? parseHexQuantity(json.slice(1, -1)) : undefined

/** A path inside a JSON value: property names and list positions. */
export type Path = readonly (string | number)[]
