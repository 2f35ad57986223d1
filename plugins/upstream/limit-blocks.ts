import { isJsonObject, refuse, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Clock, Failure, Heads, Json, Reply, Results, Target } from '../../src/plugin/plugin.ts'
import { openDeadline } from './query-deadline.ts'
import type { NodeQuery } from './query-deadline.ts'
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
 * without `fromBlock` some begin at the first block of the chain, and some know no tags. A missing block is `latest`.
 */
export const requestBlocks = async (
  query: BlocksQuery,
  { clock, results, heads }: { readonly clock: Clock; readonly results: Results; readonly heads: Pick<Heads, 'snapshot'> },
): Promise<Reply> => {
  const { request, filterParam, maxBlocks, target, limits } = query
  const filter = request.params[filterParam]
  if (!isJsonObject(filter) || typeof filter['blockHash'] === 'string') return query.sendRequest(request, limits)
  const isTooWide = ({ from, to }: BlockRange) => to - from >= BigInt(maxBlocks)
  const knownRange = knownBlocks(filter, heads.snapshot.head)
  if (knownRange !== undefined && isTooWide(knownRange)) return tooManyBlocks(knownRange, BigInt(maxBlocks), target)
  const { sendRequest, cancel } = openDeadline(query, clock)
  try {
    const range = await resolveBlocks(filter, { sendRequest, results })
    if ('error' in range) return range
    if (isTooWide(range)) return tooManyBlocks(range, BigInt(maxBlocks), target)
    const { from, to } = range
    const numbered = { ...filter, fromBlock: toHexQuantity(from), toBlock: toHexQuantity(to) }
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
const knownBlocks = ({ fromBlock, toBlock }: FilterParam, head: number | undefined): BlockRange | undefined => {
  const [from, to] = [knownBlock(fromBlock, head), knownBlock(toBlock, head)]
  return from === undefined || to === undefined ? undefined : { from, to }
}

const knownBlock = (block: Json | undefined, head: number | undefined): bigint | undefined => {
  if (block === 'earliest') return 0n
  if (block === 'safe' || block === 'finalized') return undefined
  return parseBlockNumber(block) ?? (head === undefined ? undefined : BigInt(head))
}

type BlockReader = Parameters<typeof readBlock>[1]

const resolveBlocks = async ({ fromBlock, toBlock }: FilterParam, node: BlockReader): Promise<BlockRange | Failure> => {
  const to = await resolveBlock(toBlock, node)
  if (typeof to !== 'bigint') return to
  const from = fromBlock === toBlock ? to : await resolveBlock(fromBlock, node)
  return typeof from === 'bigint' ? { from, to } : from
}

/** No node has traces of the pending block. */
const resolveBlock = async (block: Json | undefined, node: BlockReader): Promise<bigint | Failure> => {
  const number = block === 'earliest' ? 0n : parseBlockNumber(block)
  if (number !== undefined) return number
  const tag = block === 'safe' || block === 'finalized' ? block : 'latest'
  const found = await readBlock(tag, node)
  if (found === undefined) return refuse('unavailable', { cause: `upstream has no block "${tag}"`, retryElsewhere: true })
  return isFailedRead(found) ? found : found.number
}
