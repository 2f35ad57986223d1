import { wholeOf } from '../../src/plugin.ts'
import type { Json, Text } from '../../src/plugin.ts'

/** The block that an answer is about: by its number or its hash. */
export type Subject = number | string

/**
 * What a parameter that names a block, or a filter over blocks, comes to: for a range its end. Undefined for what moves
 * with the head: tags, a missing block.
 */
export const subjectOf = (param: Json | undefined): Subject | undefined => {
  if (typeof param === 'string') return param.length === hashLength ? param : heightOf(param)
  if (typeof param !== 'object' || param === null || isList(param)) return undefined
  const { blockHash, blockNumber, fromBlock, toBlock } = param
  if (typeof blockHash === 'string') return blockHash
  if (blockNumber !== undefined) return heightOf(blockNumber)
  const [from, to] = [heightOf(fromBlock), heightOf(toBlock)]
  return from === undefined || to === undefined ? undefined : Math.max(from, to)
}

/** The number that hex text names; undefined for anything else, and above 2^53 - 1. */
const heightOf = (value: Json | undefined): number | undefined => {
  const number = typeof value === 'string' && /^0x[0-9a-f]+$/i.test(value) ? Number(value) : undefined
  return Number.isSafeInteger(number) ? number : undefined
}

/** The block of a transaction or a receipt. Its logs, if they come first, say the same. */
export const minedIn = (result: Text): number | undefined => {
  const bytes = wholeOf(result)
  const at = bytes.indexOf('"blockNumber"')
  if (at < 0) return undefined
  const [, number] = /^"blockNumber"\s*:\s*"(0x[0-9a-fA-F]+)"/.exec(bytes.toString('latin1', at, at + 64)) ?? []
  return heightOf(number)
}

const hashLength = 66

const isList = (value: object): value is readonly Json[] => Array.isArray(value)
