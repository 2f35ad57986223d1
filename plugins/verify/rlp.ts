/** Bytes, or a list of items. */
export type RlpItem = Uint8Array | readonly RlpItem[]

/** The encoding of Ethereum (RLP). */
export const encodeRlp = (item: RlpItem): Buffer => {
  const bytes = Buffer.allocUnsafe(lengthOf(item))
  writeItem(item, bytes, 0)
  return bytes
}

const isBytes = (item: RlpItem): item is Uint8Array => item instanceof Uint8Array

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
