import { namedBlocksOf, parseJsonHexQuantity } from '../../src/plugin/internal.ts'
import type { BlockId, BlockReport, Results, RawJson } from '../../src/plugin/internal.ts'
import { blockSelectorOf, toBuffer } from '../../src/plugin/plugin.ts'
import type { Method, Request, Result } from '../../src/plugin/plugin.ts'

/**
 * The mined block that the result of a node is about, by `reports` in the method table; undefined where it says
 * none. Nothing that the caller wrote counts, and nothing about the pending block, which some nodes give a number and a hash.
 */
export const reportedBlockOf = (
  { result }: Result,
  { params }: Request,
  method: Pick<Method, 'reports' | 'blockParam'>,
  results: Results,
): BlockId | undefined => {
  const { reports } = method
  if (reports === undefined || namedBlocksOf(blockSelectorOf(method, params)).includes('pending')) return undefined
  const object = reports === 'logs' ? lastObjectOf(result) : result
  const [numberText, hash] = object === undefined ? [] : results.findMembers(object, memberNames[reports])
  const number = hash?.startsWith('"') === true ? parseJsonHexQuantity(numberText) : undefined
  return hash === undefined || number === undefined ? undefined : { number, hash: hash.slice(1, -1).toLowerCase() }
}

/** Only a mined block has both. */
const memberNames: Readonly<Record<BlockReport, readonly [number: string, hash: string]>> = {
  block: ['number', 'hash'],
  transaction: ['blockNumber', 'blockHash'],
  logs: ['blockNumber', 'blockHash'],
}

/** A log takes 600 bytes. */
const minTailBytes = 4_096

/**
 * The last object of an array, which has the greatest block number; of receipts the last log, which has the same one. Read from
 * the end: 10,000 logs are 6 MB, and a log holds no other object.
 */
const lastObjectOf = (result: RawJson): RawJson | undefined => {
  const length = result.byteLength
  for (let tailBytes = minTailBytes; ; tailBytes *= 4) {
    const tail = toBuffer(result.subarray(Math.max(0, length - tailBytes), length))
    const start = tail.lastIndexOf('{')
    if (start >= 0) return tail.subarray(start, tail.lastIndexOf('}') + 1)
    if (tailBytes >= length) return undefined
  }
}
