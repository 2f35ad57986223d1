import type { Json } from '../../plugin/call.ts'
import { parseHexQuantity } from '../../util/hex-quantity.ts'
import { isJsonObject } from '../../util/json.ts'
import type { Method } from './index.ts'

/** A block by its number or its tag. */
export type BlockNumberOrTag = number | string

/** The blocks that a call is about: one, by its hash, or a range. */
export type BlockSelector = { readonly hash: string } | { readonly from: BlockNumberOrTag; readonly to: BlockNumberOrTag }

/** The blocks that a call selects by its block parameter or filter; undefined for methods without `blockParam`. */
export const blockSelectorOf = ({ blockParam }: Pick<Method, 'blockParam'> = {}, params: readonly Json[]): BlockSelector | undefined => {
  if (blockParam === undefined) return undefined
  const param = params[blockParam]
  if (typeof param === 'string') return param.length === blockHashChars ? { hash: param } : singleBlock(param)
  if (!isJsonObject(param)) return singleBlock(undefined)
  const { blockHash, blockNumber, fromBlock, toBlock } = param
  if (typeof blockHash === 'string') return { hash: blockHash }
  return blockNumber === undefined ? { from: blockNumberOrTag(fromBlock), to: blockNumberOrTag(toBlock) } : singleBlock(blockNumber)
}

const blockHashChars = 66

const singleBlock = (block: Json | undefined): BlockSelector => {
  const height = blockNumberOrTag(block)
  return { from: height, to: height }
}

/** A missing block is `latest`. There are no blocks above 2^53 - 1: such a number stays a string. */
const blockNumberOrTag = (block: Json | undefined): BlockNumberOrTag =>
  typeof block === 'string' ? (parseHexQuantity(block) ?? block) : 'latest'
