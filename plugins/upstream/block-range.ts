import { isFinalityTag, parseJsonHexQuantity } from '../../src/plugin/internal.ts'
import type { BlockNumberOrTag, Results, BlockRange, ChainSnapshot } from '../../src/plugin/internal.ts'
import { isFailure, refuse, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { BlockSelector, Failure, Json, Target } from '../../src/plugin/plugin.ts'
import type { SendRequest } from './node-query.ts'

// What the blocks of a query are on its node.

/** Blocks by their numbers. */
export type NumberRange = BlockRange<number>

export const countBlocks = ({ from, to }: NumberRange): number => to - from + 1

/** The numbers between which the blocks are as far as the query says: a tag may mean any block. */
export const boundsOf = (blocks: BlockSelector | undefined): NumberRange => {
  if (blocks === undefined || 'hash' in blocks) return { from: 0, to: Infinity }
  const { from, to } = blocks
  return { from: typeof from === 'number' ? from : 0, to: typeof to === 'number' ? to : Infinity }
}

/** The range as far as it is known without a request: refusals are not charged, and should cost the node nothing. */
export const knownRangeOf = ({ from, to }: BlockRange, snapshot: ChainSnapshot, upstream: string): NumberRange | undefined => {
  const first = isFinalityTag(from) ? undefined : heightOf(from, snapshot)
  // The last finalized block may be a newer one by now, but is no older.
  const last = isFinalityTag(to) ? snapshot.finalizedBlockOf(upstream)?.number : heightOf(to, snapshot)
  return first === undefined || last === undefined ? undefined : { from: first, to: last }
}

const heightOf = (block: BlockNumberOrTag, { head }: ChainSnapshot): number | undefined =>
  typeof block === 'number' ? block : block === 'earliest' ? 0 : head

/** Not charged: nothing was requested yet but a block. */
export const rangeTooWide = (reason: string, { name: upstream }: Target, data?: Json): Failure =>
  refuse('params', { message: `the query is too wide: ${reason}`, data, upstream, category: 'rangeTooWide' })

/** With a range that fits. */
export const tooManyBlocks = (range: NumberRange, maxBlocks: number, target: Target): Failure => {
  const reason = `${countBlocks(range)} blocks, more than the ${maxBlocks} that can be requested at once`
  return rangeTooWide(reason, target, { from: toHexQuantity(range.from), to: toHexQuantity(range.from + maxBlocks - 1) })
}

/** Requests blocks of the node of the query. */
export interface BlockReader {
  readonly sendRequest: SendRequest
  readonly results: Results
}

/** A block that the node has. */
export interface NodeBlock {
  readonly number: number
  /** Undefined when the block is final. */
  readonly hash?: string
}

/** The number of the block; undefined for a tag for which the node has no block. */
export const resolveBlock = async (block: BlockNumberOrTag, node: BlockReader): Promise<number | Failure | undefined> => {
  if (typeof block === 'number') return block
  if (block === 'earliest') return 0
  const found = await readBlock(block, node)
  return found === undefined || 'error' in found ? found : found.number
}

/** The blocks of a query as numbers; `to` is the requested one, which may be above the head. */
interface ResolvedRange extends NumberRange {
  /** The last of them that exists; undefined when the whole range is above the head. */
  readonly lastBlock: NodeBlock | undefined
}

/**
 * Resolves tags to numbers, once. Undefined when the chain has no such range: the node refuses it in its own words. A final block exists, and
 * stays: most queries over many blocks end in one, and need no request for it.
 */
export const resolveRange = async (
  { from, to }: BlockRange,
  isFinal: (block: number) => boolean,
  node: BlockReader,
): Promise<ResolvedRange | Failure | undefined> => {
  const end = typeof to === 'number' && isFinal(to) ? { number: to } : await readBlock(to, node)
  if (end !== undefined && 'error' in end) return end
  const last = typeof to === 'number' ? to : end?.number
  if (last === undefined) return undefined
  const first = from === to ? last : await resolveBlock(from, node)
  if (typeof first !== 'number') return first
  if (first > last) return undefined
  const lastBlock = end ?? (await findLastBlock(last, node))
  if (lastBlock === undefined || 'error' in lastBlock) return lastBlock
  return { from: first, to: last, lastBlock: first > lastBlock.number ? undefined : lastBlock }
}

/** The head, for an end above it. When the head has passed that end meanwhile, the end exists. */
const findLastBlock = async (end: number, node: BlockReader): Promise<NodeBlock | Failure | undefined> => {
  const head = await readBlock('latest', node)
  return head === undefined || 'error' in head || head.number <= end ? head : readBlock(end, node)
}

/** The block must still be the canonical block of its number: then all below it are too. Undefined when it is. */
export const checkNotReorged = async ({ number, hash }: NodeBlock, node: BlockReader): Promise<Failure | undefined> => {
  if (hash === undefined) return undefined
  const current = await readBlock(number, node)
  if (current !== undefined && 'error' in current) return current
  if (current?.hash === hash) return undefined
  const cause = 'chain reorganization while the chunks of a query were requested'
  return refuse('unavailable', { retryElsewhere: true, retryAfter: 1, cause })
}

/**
 * The number of the block; undefined where the node has none of the hash. The node may ignore a hash, and a block that was replaced has the number
 * of another: the block of the number must have the hash.
 */
export const resolveHash = async (hash: string, node: BlockReader): Promise<number | Failure | undefined> => {
  const found = await readBlock(hash, node, 'eth_getBlockByHash')
  if (found === undefined || 'error' in found) return found
  const canonical = await readBlock(found.number, node)
  if (canonical !== undefined && 'error' in canonical) return canonical
  return canonical?.hash?.toLowerCase() === `"${hash.toLowerCase()}"` ? found.number : undefined
}

/** Undefined when the node has no such block. */
const readBlock = async (
  block: BlockNumberOrTag,
  { sendRequest, results }: BlockReader,
  method: 'eth_getBlockByNumber' | 'eth_getBlockByHash' = 'eth_getBlockByNumber',
): Promise<NodeBlock | Failure | undefined> => {
  const reply = await sendRequest({ method, params: [typeof block === 'number' ? toHexQuantity(block) : block, false] })
  if (isFailure(reply)) return reply
  const [numberText, hash] = results.extractObjects(reply.result, ['number', 'hash'])?.[0]?.members ?? []
  const number = parseJsonHexQuantity(numberText)
  return number === undefined || hash === undefined ? undefined : { number, hash }
}
