/** A cluster of Redis has so many slots; a node has the keys of some of them. */
export const slotCount = 16_384

/** The slot of a key: that of the text in its first braces, where it has any. */
export const keySlot = (key: string): number => {
  const tag = /^[^{]*\{([^}]+)\}/.exec(key)?.[1]
  return crc16(Buffer.from(tag ?? key)) % slotCount
}

/** CRC-16/XMODEM, as the cluster specification of Redis has it. */
const crc16 = (bytes: Buffer): number => {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021
  }
  return crc & 0xffff
}

/** Of a reply to CLUSTER SLOTS the primary of each slot, as `at` writes it; undefined for a slot that no node has. */
export const readSlotOwners = (reply: readonly unknown[], at: (host: string, port: string) => string): readonly (string | undefined)[] => {
  const owners = new Array<string | undefined>(slotCount)
  // As Redis promises; replicas follow the primary.
  for (const [first, last, [host, port]] of reply as readonly [number, number, readonly [string | null, number]][]) {
    owners.fill(at(host ?? '', String(port)), first, last + 1)
  }
  return owners
}
