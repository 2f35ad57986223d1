import { wholeOf } from '../../src/plugin.ts'
import type { Blocks, Text } from '../../src/plugin.ts'

/** The block that an answer is about: by its number or its hash. */
export type Subject = number | string

/** Of more blocks than one the last. Undefined for what moves with the head. */
export const subjectOf = (blocks: Blocks): Subject | undefined => {
  if ('hash' in blocks) return blocks.hash
  const { from, to } = blocks
  return typeof from === 'number' && typeof to === 'number' ? Math.max(from, to) : undefined
}

/** The block of a transaction or a receipt. Its logs, if they come first, say the same. */
export const minedIn = (result: Text): number | undefined => {
  const bytes = wholeOf(result)
  const at = bytes.indexOf('"blockNumber"')
  if (at < 0) return undefined
  const [, text] = /^"blockNumber"\s*:\s*"(0x[0-9a-fA-F]+)"/.exec(bytes.toString('latin1', at, at + 64)) ?? []
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : undefined
}
