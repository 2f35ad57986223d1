import { keccak256 } from '../../src/plugin/plugin.ts'
import type { Json } from '../../src/plugin/plugin.ts'
import { toBytes, toHex, toList, toObject } from './hex.ts'
import { runAtOnce } from './work-turns.ts'
import type { Steps } from './work-turns.ts'

const bloomBytes = 256
/** As which a log counts that is hashed. */
const logBytes = 256

/** The bloom filter of these logs, as in a receipt. Each address and topic takes 2 us the first time. */
export const logsBloomOf = (logs: readonly Json[]): string => runAtOnce(logsBloomSteps(logs))

export function* logsBloomSteps(logs: readonly Json[]): Steps<string> {
  const bloom = Buffer.alloc(bloomBytes)
  const added = new Set<string>()
  for (const log of logs) {
    const { address, topics } = toObject(log)
    for (const value of [address, ...toList(topics)]) {
      const bytes = toBytes(value)
      const key = bytes.toString('latin1')
      if (added.has(key)) continue
      added.add(key)
      addTo(bloom, bytes)
    }
    yield logBytes
  }
  return toHex(bloom)
}

const addTo = (bloom: Buffer, bytes: Buffer): void => {
  for (const bit of bloomBitsOf(keccak256(bytes))) bloom[bloomBytes - 1 - (bit >> 3)]! |= 1 << (bit & 7)
}

/** Whether the bloom has the bits of these. */
export const hasBits = (bloom: Buffer, bits: readonly number[]): boolean =>
  bits.every(bit => (bloom[bloom.length - 1 - (bit >> 3)]! & (1 << (bit & 7))) !== 0)

/** Whether the bloom may have the address or topic. Throws MalformedMember. */
export const hasBloomBits = (bloom: Buffer, value: Json | undefined): boolean => hasBits(bloom, bloomBitsOf(keccak256(toBytes(value))))

/** The three bits of a value with this hash, counted from the right end. */
export const bloomBitsOf = (hash: Buffer): readonly number[] => [0, 2, 4].map(at => hash.readUInt16BE(at) % (8 * bloomBytes))
