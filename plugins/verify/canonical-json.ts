import { isJsonObject } from '../../src/plugin/plugin.ts'
import type { Json } from '../../src/plugin/plugin.ts'

/**
 * A text that is the same for values that mean the same: whatever the order of members is, the case of hex, and whether a member is null or absent. Elements
 * of lists have an order.
 */
export const canonicalJson = (value: Json): string => JSON.stringify(toCanonical(value))

const toCanonical = (value: Json): Json => {
  if (typeof value === 'string') return /^0x[0-9a-f]*$/i.test(value) ? value.toLowerCase() : value
  if (Array.isArray(value)) return (value as readonly Json[]).map(toCanonical) // Array.isArray() does not narrow to readonly arrays
  if (!isJsonObject(value)) return value
  const members = Object.entries(value).filter(([, member]) => member !== null)
  return Object.fromEntries(
    members.toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([name, member]) => [name, toCanonical(member)]),
  )
}
