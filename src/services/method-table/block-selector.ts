import type { Json } from '../../plugin/call.ts'
import type { Method } from './index.ts'

/** A block by its number; or by its tag, as it stands. */
export type BlockNumberOrTag = number | string

/** The blocks that a question is about: one, by its hash, or all from one to another. */
export type BlockSelector = { readonly hash: string } | { readonly from: BlockNumberOrTag; readonly to: BlockNumberOrTag }

/** What the block parameter of a call comes to, or its filter. Undefined where the method table does not say which it is. */
export const blockSelectorOf = ({ blockParam }: Pick<Method, 'blockParam'> = {}, params: readonly Json[]): BlockSelector | undefined => {
  if (blockParam === undefined) return undefined
  const param = params[blockParam]
  if (typeof param === 'string') return param.length === blockHashChars ? { hash: param } : singleBlock(param)
  if (!isObject(param)) return singleBlock(undefined)
  const { blockHash, blockNumber, fromBlock, toBlock } = param
  if (typeof blockHash === 'string') return { hash: blockHash }
  return blockNumber === undefined ? { from: blockNumberOrTag(fromBlock), to: blockNumberOrTag(toBlock) } : singleBlock(blockNumber)
}

const blockHashChars = 66

const singleBlock = (block: Json | undefined): BlockSelector => {
  const height = blockNumberOrTag(block)
  return { from: height, to: height }
}

/** A missing one is the latest. Above 2^53 - 1 there are no blocks: such a number stays text. */
const blockNumberOrTag = (block: Json | undefined): BlockNumberOrTag => {
  if (typeof block !== 'string') return 'latest'
  const number = /^0x[0-9a-f]+$/i.test(block) ? Number(block) : undefined
  return number !== undefined && Number.isSafeInteger(number) ? number : block
}

const isObject = (value: Json | undefined): value is { readonly [name: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
