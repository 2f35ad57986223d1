import { MalformedMember } from './hex.ts'

/** Bytes, or a list of items. */
export type RlpItem = Uint8Array | readonly RlpItem[]

/** The encoding of Ethereum (RLP). */
export const encodeRlp = (item: RlpItem): Buffer => {
  const bytes = Buffer.allocUnsafe(lengthOf(item))
  writeItem(item, bytes, 0)
  return bytes
}

export const isBytes = (item: RlpItem): item is Uint8Array => item instanceof Uint8Array

/** A byte below 0x80 is its own encoding. */
const isSingleByte = (bytes: Uint8Array): boolean => bytes.length === 1 && bytes[0]! < 0x80

const lengthOf = (item: RlpItem): number => {
  const length = payloadLengthOf(item)
  return isBytes(item) && isSingleByte(item) ? 1 : length + prefixLengthOf(length)
}

const payloadLengthOf = (item: RlpItem): number => (isBytes(item) ? item.length : item.reduce((sum, each) => sum + lengthOf(each), 0))

const maxShortLength = 55

const prefixLengthOf = (length: number): number => (length <= maxShortLength ? 1 : 1 + byteCountOf(length))

const byteCountOf = (length: number): number => (length < 0x100 ? 1 : length < 0x1_00_00 ? 2 : length < 0x1_00_00_00 ? 3 : 4)

/** Returns where the next item begins. */
const writeItem = (item: RlpItem, to: Buffer, at: number): number => {
  if (!isBytes(item)) return item.reduce((offset, each) => writeItem(each, to, offset), writePrefix(payloadLengthOf(item), 0xc0, to, at))
  const offset = isSingleByte(item) ? at : writePrefix(item.length, 0x80, to, at)
  to.set(item, offset)
  return offset + item.length
}

const writePrefix = (length: number, base: number, to: Buffer, at: number): number => {
  if (length <= maxShortLength) return to.writeUInt8(base + length, at)
  const byteCount = byteCountOf(length)
  to.writeUInt8(base + maxShortLength + byteCount, at)
  return to.writeUIntBE(length, at + 1, byteCount)
}

/** The item that the bytes encode. Throws MalformedMember. */
export const decodeRlp = (bytes: Buffer): RlpItem => {
  const { item, end } = readItem(bytes, 0)
  if (end !== bytes.length) throw new MalformedMember()
  return item
}

const readItem = (bytes: Buffer, at: number): { readonly item: RlpItem; readonly end: number } => {
  const first = bytes[at]
  if (first === undefined) throw new MalformedMember()
  if (first < 0x80) return { item: bytes.subarray(at, at + 1), end: at + 1 }
  const isList = first >= 0xc0
  const length = first - (isList ? 0xc0 : 0x80)
  const byteCount = length - maxShortLength
  if (byteCount > maxByteCount || at + 1 + byteCount > bytes.length) throw new MalformedMember()
  const start = at + 1 + Math.max(0, byteCount)
  const end = start + (byteCount > 0 ? bytes.readUIntBE(at + 1, byteCount) : length)
  if (end > bytes.length) throw new MalformedMember()
  return { item: isList ? readItems(bytes.subarray(start, end)) : bytes.subarray(start, end), end }
}

/** No item here has 4 GiB. */
const maxByteCount = 4

const readItems = (bytes: Buffer): readonly RlpItem[] => {
  const items: RlpItem[] = []
  for (let at = 0; at < bytes.length; ) {
    const { item, end } = readItem(bytes, at)
    items.push(item)
    at = end
  }
  return items
}
