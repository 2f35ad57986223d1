import { isJsonObject, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Json, JsonObject } from '../../src/plugin/plugin.ts'

/** A member is missing, or is not what it should be: nothing can be computed from it. */
export class MalformedMember extends Error {}

/** The bytes of hex data, such as a hash. */
export const toBytes = (value: Json | undefined): Buffer => {
  if (typeof value !== 'string' || !/^0x(?:[0-9a-f]{2})*$/i.test(value)) throw new MalformedMember()
  return Buffer.from(value.slice(2), 'hex')
}

/** `0x` and the digits of 256 bits. Zeros before a number change no hash, so that a node could have any number of them kept here. */
const maxQuantityLength = 66

/** Some versions of clients write a quantity as a JSON number. */
const toText = (value: Json | undefined): Json | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? toHexQuantity(value) : value

/** The bytes of a hex quantity without leading zeros: none for 0. */
export const toQuantityBytes = (value: Json | undefined): Buffer => {
  const text = toText(value)
  if (typeof text !== 'string' || text.length > maxQuantityLength || !/^0x[0-9a-f]*$/i.test(text)) throw new MalformedMember()
  const digits = text.slice(2).replace(/^0+/, '')
  return Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex')
}

/** A hex quantity, in lower case. */
export const toHexText = (value: Json | undefined): string => {
  const text = toText(value)
  if (typeof text !== 'string' || text.length > maxQuantityLength || !/^0x[0-9a-f]+$/i.test(text)) throw new MalformedMember()
  return text.toLowerCase()
}

export const toBigInt = (value: Json | undefined): bigint => BigInt(toHexText(value))

export const toList = (value: Json | undefined): readonly Json[] => {
  if (!Array.isArray(value)) throw new MalformedMember()
  return value as readonly Json[] // Array.isArray() does not narrow to readonly arrays
}

export const toObject = (value: Json | undefined): JsonObject => {
  if (!isJsonObject(value)) throw new MalformedMember()
  return value
}

/** A member that some nodes leave out. */
export const isAbsent = (value: Json | undefined): value is null | undefined => value === undefined || value === null

export const toHex = (bytes: Uint8Array): string => `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')}`

/** Whether both are the same hex, in any case of their letters. */
export const isSameHex = (one: Json | undefined, other: Json | undefined): boolean =>
  one === other || (typeof one === 'string' && typeof other === 'string' && one.toLowerCase() === other.toLowerCase())
