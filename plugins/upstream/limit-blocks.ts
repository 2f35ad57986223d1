import { isFinalityTag } from '../../src/plugin/internal.ts'
import type { Results } from '../../src/plugin/internal.ts'
import { isJsonObject, refuse, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { ChainSnapshot, Clock, Failure, Heads, Json, Reply, Target } from '../../src/plugin/plugin.ts'
import { openDeadline } from './node-query.ts'
import type { NodeQuery } from './node-query.ts'
import { isFailedRead, parseBlockNumber, readBlock } from './split-logs/split-filter.ts'
import type { BlockRange, FilterParam } from './split-logs/split-filter.ts'

/** A query over blocks, and how many it may be about. */
interface BlocksQuery extends NodeQuery {
  /** The position in params of the filter. */
  readonly filterParam: number
  readonly maxBlocks: number
}

/**
 * Sends a query over blocks to its node, with the first and the last block as numbers. Nodes disagree about what else they accept:
 * without `fromBlock` some begin at the first block of the chain, and some know no tags or no `blockHash`. A missing block is `latest`.
 */
export const requestBlocks = async (
  query: BlocksQuery,
  { clock, results, heads }: { readonly clock: Clock; readonly results: Results; readonly heads: Pick<Heads, 'snapshot'> },
): Promise<Reply> => {
  const { request, filterParam, maxBlocks, target, limits } = query
  const filter = request.params[filterParam]
  if (!isJsonObject(filter)) return query.sendRequest(request, limits)
  const isTooWide = ({ from, to }: BlockRange) => to - from >= BigInt(maxBlocks)
  const knownRange = knownBlocks(filter, heads.snapshot, target.name)
  if (knownRange !== undefined && isTooWide(knownRange)) return tooManyBlocks(knownRange, BigInt(maxBlocks), target)
  const { sendRequest, cancel } = openDeadline(query, clock)
  try {
    const range = await resolveBlocks(filter, { sendRequest, results, target })
    if ('error' in range) return range
    if (isTooWide(range)) return tooManyBlocks(range, BigInt(maxBlocks), target)
    const { blockHash: _blockHash, ...others } = filter
    const numbered = { ...others, fromBlock: toHexQuantity(range.from), toBlock: toHexQuantity(range.to) }
    return await sendRequest({ ...request, params: request.params.with(filterParam, numbered) })
  } finally {
    cancel()
  }
}

/** Not charged: nothing was requested yet but a block. */
export const rangeTooWide = (reason: string, { name: upstream }: Target, data?: Json): Failure =>
  refuse('params', { message: `the query is too wide: ${reason}`, data, upstream, category: 'rangeTooWide' })

/** With a range that fits. */
export const tooManyBlocks = ({ from, to }: BlockRange, maxBlocks: bigint, target: Target): Failure => {
  const reason = `${to - from + 1n} blocks, more than the ${maxBlocks} that can be requested at once`
  return rangeTooWide(reason, target, { from: toHexQuantity(from), to: toHexQuantity(from + maxBlocks - 1n) })
}

/** The range as far as it is known without a request: refusals are not charged, and should cost the node nothing. */
export const knownBlocks = ({ fromBlock, toBlock }: FilterParam, snapshot: ChainSnapshot, upstream: string): BlockRange | undefined => {
  const from = knownBlock(fromBlock, snapshot)
  // The last finalized block may be a newer one by now, but is no older.
  const to = isFinalityTag(toBlock) ? toBigInt(snapshot.finalizedBlockOf(upstream)?.number) : knownBlock(toBlock, snapshot)
  return from === undefined || to === undefined ? undefined : { from, to }
}

const knownBlock = (block: Json | undefined, { head }: ChainSnapshot): bigint | undefined => {
  if (block === 'earliest') return 0n
  return isFinalityTag(block) ? undefined : (parseBlockNumber(block) ?? toBigInt(head))
}

const toBigInt = (block: number | undefined): bigint | undefined => (block === undefined ? undefined : BigInt(block))

type BlockReader = Parameters<typeof readBlock>[1] & { readonly target: Target }

const resolveBlocks = async ({ blockHash, fromBlock, toBlock }: FilterParam, node: BlockReader): Promise<BlockRange | Failure> => {
  if (typeof blockHash === 'string') return resolveBlockHash(blockHash, node)
  const to = await resolveBlock(toBlock, node)
  if (typeof to !== 'bigint') return to
  const from = fromBlock === toBlock ? to : await resolveBlock(fromBlock, node)
  return typeof from === 'bigint' ? { from, to } : from
}

/** The node may ignore a hash, and a block that was replaced has the number of another: the block of the number must have the hash. */
const resolveBlockHash = async (hash: string, node: BlockReader): Promise<BlockRange | Failure> => {
  const found = await readBlock(hash, node, 'eth_getBlockByHash')
  if (found === undefined) return unknownBlock(node.target)
  if (isFailedRead(found)) return found
  const canonical = await readBlock(toHexQuantity(found.number), node)
  if (canonical !== undefined && isFailedRead(canonical)) return canonical
  return canonical?.hash?.toLowerCase() === `"${hash.toLowerCase()}"` ? { from: found.number, to: found.number } : unknownBlock(node.target)
}

/** Charged, as the node has answered. */
const unknownBlock = ({ name: upstream, source }: Target): Failure =>
  refuse('params', { message: 'unknown block', source, upstream, category: 'blockNotFound', retryElsewhere: true })

/** No node has traces of the pending block. */
const resolveBlock = async (block: Json | undefined, node: BlockReader): Promise<bigint | Failure> => {
  const number = block === 'earliest' ? 0n : parseBlockNumber(block)
  if (number !== undefined) return number
  const tag = block === 'safe' || block === 'finalized' ? block : 'latest'
  const found = await readBlock(tag, node)
  if (found === undefined) return refuse('unavailable', { cause: `upstream has no block "${tag}"`, retryElsewhere: true })
  return isFailedRead(found) ? found : found.number
}
