/** A number as Ethereum's JSON-RPC writes quantities: `0x`, no leading zeros. */
export const toHexQuantity = (value: number | bigint): string => `0x${value.toString(16)}`

/** `0x` and hex digits. Nodes and callers also send leading zeros and upper case. */
const pattern = /^0x[0-9a-f]+$/i

/** The number in a hex quantity; undefined when the text is none, or is above 2^53 - 1. */
export const parseHexQuantity = (text: unknown): number | undefined => {
  if (typeof text !== 'string' || !pattern.test(text)) return undefined
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : undefined
}

/** The number in the JSON text of a hex quantity, such as `"0x1f"` with its quotes; undefined when the text is none. */
export const parseJsonHexQuantity = (json: string | undefined): number | undefined =>
  json?.startsWith('"') === true ? parseHexQuantity(json.slice(1, -1)) : undefined
