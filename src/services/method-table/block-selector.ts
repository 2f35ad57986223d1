import type { Json, Request } from '../../plugin/call.ts'
import { isHexQuantity, isJsonObject, toHexQuantity } from '../../util/json.ts'
import type { JsonObject } from '../../util/json.ts'
import type { Method } from './index.ts'

/** A block by its number or its tag. */
export type BlockNumberOrTag = number | string

/** The tags whose blocks never go back. */
export type FinalityTag = 'safe' | 'finalized'
export const finalityTags: readonly FinalityTag[] = ['safe', 'finalized']

export const isFinalityTag = (block: unknown): block is FinalityTag => (finalityTags as readonly unknown[]).includes(block)

/** A range of blocks, both ends included. */
export interface BlockRange<Block extends BlockNumberOrTag = BlockNumberOrTag> {
  readonly from: Block
  readonly to: Block
}

/** The blocks that a call is about: one, by its hash, or a range. */
export type BlockSelector = { readonly hash: string } | BlockRange

/**
 * The blocks that a call selects by its block parameter or filter, as in `blockSelectorOf(services.methods.get(method), params)`; undefined
 * for methods without `blockParam`.
 */
export const blockSelectorOf = ({ blockParam }: Pick<Method, 'blockParam'> = {}, params: readonly Json[]): BlockSelector | undefined => {
  if (blockParam === undefined) return undefined
  const param = params[blockParam]
  if (typeof param === 'string') return param.length === blockHashChars ? { hash: param } : singleBlock(param)
  if (!isJsonObject(param)) return singleBlock(undefined)
  const { blockHash, blockNumber, fromBlock, toBlock } = param
  if (typeof blockHash === 'string') return { hash: blockHash }
  return blockNumber === undefined ? { from: numberOrTag(fromBlock), to: numberOrTag(toBlock) } : singleBlock(blockNumber)
}

/** The numbers and the tags among the blocks that a call selects, each once. */
export const namedBlocksOf = (blocks: BlockSelector | undefined): readonly BlockNumberOrTag[] => {
  if (blocks === undefined || 'hash' in blocks) return noBlocks
  return blocks.from === blocks.to ? [blocks.from] : [blocks.from, blocks.to]
}

/** The request with these blocks in place of those that it selects. */
export const withBlocks = (request: Request, { blockParam = 0 }: Pick<Method, 'blockParam'>, { from, to }: BlockRange): Request => {
  const params = [...request.params]
  while (params.length <= blockParam) params.push(null)
  const param = params[blockParam]
  params[blockParam] = isJsonObject(param) ? withMembers(param, from, to) : toText(from)
  return { ...request, params }
}

/** Of EIP-1898, or of a filter. */
const withMembers = ({ blockHash: _blockHash, ...param }: JsonObject, from: BlockNumberOrTag, to: BlockNumberOrTag): JsonObject =>
  'blockNumber' in param ? { ...param, blockNumber: toText(from) } : { ...param, fromBlock: toText(from), toBlock: toText(to) }

const blockHashChars = 66

const noBlocks: readonly BlockNumberOrTag[] = []

const singleBlock = (block: Json | undefined): BlockSelector => {
  const height = numberOrTag(block)
  return { from: height, to: height }
}

/** A missing block is `latest`. There are no blocks above 2^53 - 1: a greater number counts as that one. */
const numberOrTag = (block: Json | undefined): BlockNumberOrTag => {
  if (typeof block !== 'string') return 'latest'
  return isHexQuantity(block) ? Math.min(Number(block), Number.MAX_SAFE_INTEGER) : block
}

const toText = (block: BlockNumberOrTag): string => (typeof block === 'number' ? toHexQuantity(block) : block)
