import { resultMemoryOf } from '../../../src/plugin/internal.ts'
import type { Results } from '../../../src/plugin/internal.ts'
import { copyReply, isFailure, refuse, toHexQuantity } from '../../../src/plugin/plugin.ts'
import type { ChainSnapshot, Clock, Failure, Heads, Json, Reply, Target } from '../../../src/plugin/plugin.ts'
import { checkLogs, expectLogs } from '../check-result.ts'
import { knownBlocks, rangeTooWide, tooManyBlocks } from '../limit-blocks.ts'
import { openDeadline } from '../node-query.ts'
import type { NodeQuery } from '../node-query.ts'
import { suggestRangeOfChunks } from '../too-many-results.ts'
import { fetchChunks, mergeChunks } from './fetch-chunks.ts'
import type { FetchedChunks } from './fetch-chunks.ts'
import {
  checkNotReorged,
  countListChunks,
  countRanges,
  filterOf,
  firstRangeOf,
  parseBlockNumber,
  removeDuplicates,
  resolveBlockRange,
  splitByLists,
  splitRange,
} from './split-filter.ts'
import type { BlockRange, ChunkGroup, FilterParam, QueriedBlock, SendRequest } from './split-filter.ts'

/** A query for logs, and its node. */
interface LogsQuery extends NodeQuery {
  /** Most logs, for the query as a whole. */
  readonly maxResults: number
}

interface SplitServices {
  readonly clock: Clock
  readonly results: Results
  readonly heads: Heads
  /** Most chunks of one query. */
  readonly maxChunks: number
}

/** Most addresses, and most topics in one position, that geth and Erigon accept. The contract allows 5,000 in all. */
const usualParamLimit = { maxParams: 1000 }

/** Nodes, by name, whose `maxParams` is not set and that were found to accept no more than the usual number. */
type ParamLimitedNodes = Set<string>

/**
 * Requests in chunks what the node is known not to accept at once, or turns out not to accept: when a node without
 * `maxParams` refuses long lists, the query is repeated within the usual limit, and so are later queries to that node.
 */
export const requestLogs = async (query: LogsQuery, services: SplitServices, paramLimited: ParamLimitedNodes): Promise<Reply> => {
  const { target, limits, request } = query
  const isLong = target.maxParams === undefined && countListChunks(filterOf(request), usualParamLimit) > 1
  if (!isLong) return requestInChunks(query, services)
  const limitedQuery = { ...query, target: { ...target, ...usualParamLimit } }
  if (paramLimited.has(target.name)) return requestInChunks(limitedQuery, services)
  const startedAt = services.clock.monotonic()
  const reply = await requestInChunks(query, services)
  if (!isRangeTooWide(reply) || reply.source === 'gateway') return reply
  const timeoutMs = limits.timeoutMs - (services.clock.monotonic() - startedAt)
  const retried = await requestInChunks({ ...limitedQuery, limits: { ...limits, timeoutMs } }, services)
  if (!isRangeTooWide(retried)) paramLimited.add(target.name)
  return retried
}

const isRangeTooWide = (reply: Reply): boolean => isFailure(reply) && reply.category === 'rangeTooWide'

/**
 * Requests in chunks what the node does not accept at once, and merges the logs: those of one chain, in its order, each
 * once, byte for byte, as the chain was when the query began; or it fails. For this, tags are resolved to numbers first, and
 * the last block must have the same hash afterwards: then no block below it was replaced meanwhile. Blocks above the head
 * are left to the node, in the last chunk, as far as the node accepts them; where lists are split, they are in no chunk.
 */
const requestInChunks = async (query: LogsQuery, services: SplitServices): Promise<Reply> => {
  const { target, limits } = query
  const filter = removeDuplicates(filterOf(query.request), target)
  const request = { ...query.request, params: [filter] }
  if (!mayNeedChunks(filter, target)) return query.sendRequest(request, limits)
  const { sendRequest, cancel } = openDeadline(query, services.clock)
  try {
    return await splitAndMerge({ ...query, request, filter, sendRequest, cancel }, services)
  } finally {
    cancel()
  }
}

/** True also where it depends on what tags resolve to. Logs of the pending block, which changes, cannot be merged. */
const mayNeedChunks = (filter: FilterParam, target: Target): boolean => {
  const { blockHash, fromBlock, toBlock } = filter
  if (fromBlock === 'pending' || toBlock === 'pending') return false
  if (countListChunks(filter, target) > 1) return true
  if (target.maxRange === undefined || blockHash !== undefined || fromBlock === toBlock) return false
  const [from, to] = [parseBlockNumber(fromBlock), parseBlockNumber(toBlock)]
  return from === undefined || to === undefined || to - from >= BigInt(target.maxRange)
}

interface SplitQuery extends Omit<LogsQuery, 'sendRequest'> {
  readonly filter: FilterParam
  readonly sendRequest: SendRequest
  cancel(): void
}

const splitAndMerge = async (query: SplitQuery, { results, heads, maxChunks }: SplitServices): Promise<Reply> => {
  const { filter, target, request, sendRequest } = query
  const listChunks = countListChunks(filter, target)
  if (listChunks > maxChunks)
    return retriedElsewhere(rangeTooWide(`its addresses and topics are ${listChunks} queries, more than ${maxChunks}`, target))
  if (filter['blockHash'] !== undefined) return requestChunks(query, [{ filters: splitByLists(filter, target) }], results)
  const countChunks = (range: BlockRange): number => listChunks * countRanges(range, target)
  const tooWide = (range: BlockRange): Reply =>
    retriedElsewhere(tooManyBlocks(range, BigInt(target.maxRange ?? 1) * BigInt(Math.floor(maxChunks / listChunks)), target))
  const known = knownExistingBlocks(filter, heads.snapshot, target)
  if (known !== undefined && countChunks(known) > maxChunks) return tooWide(known)
  const node = { sendRequest, results, isFinal: (block: bigint) => heads.snapshot.isFinal(target.name, Number(block)) }
  const range = await resolveBlockRange(filter, node)
  if (range === undefined) return sendRequest(request)
  if ('error' in range) return range
  const { lastBlock } = range
  if (lastBlock === undefined) return requestAboveHead(query, range)
  const existing = { from: range.from, to: lastBlock.number }
  const count = countChunks(existing)
  if (count === 1 && firstRangeOf(range, target).to === range.to) return sendRequest(request)
  if (count > maxChunks) return tooWide(existing)
  const reply = await requestChunks(query, chunkGroupsOf(filter, { ...range, lastBlock }, target), results)
  return isFailure(reply) ? reply : ((await checkNotReorged(lastBlock, node)) ?? reply)
}

/**
 * No block of the range exists: the node refuses it in its own words, or returns no logs. Its first chunk is enough for that, unless
 * a block is added meanwhile, of which the chunk would have a part of the logs.
 */
const requestAboveHead = async ({ request, filter, target, sendRequest }: SplitQuery, range: BlockRange): Promise<Reply> => {
  const [first = filter, ...others] = splitByLists(withBlocks(filter, firstRangeOf(range, target)), target)
  const reply = await sendRequest({ ...request, params: [first] })
  if (isFailure(reply) || others.length === 0 || reply.count === 0) return reply
  resultMemoryOf(reply)?.release()
  const cause = 'a block was added while the chunks of a query were requested'
  return refuse('unavailable', { source: target.source, upstream: target.name, retryElsewhere: true, retryAfter: 1, cause })
}

/** Blocks above the head make no chunks. */
const knownExistingBlocks = (filter: FilterParam, snapshot: ChainSnapshot, { name }: Target): BlockRange | undefined => {
  const known = knownBlocks(filter, snapshot, name)
  if (known === undefined || snapshot.head === undefined) return undefined
  const head = BigInt(snapshot.head)
  return known.to < head ? known : { ...known, to: head }
}

/** Another node may accept the query as it is. */
const retriedElsewhere = (failure: Failure): Failure => copyReply(failure, { retryElsewhere: true })

const withBlocks = (filter: FilterParam, { from, to }: BlockRange): FilterParam => ({
  ...filter,
  fromBlock: toHexQuantity(from),
  toBlock: toHexQuantity(to),
})

const chunkGroupsOf = (
  filter: FilterParam,
  { from, to, lastBlock }: BlockRange & { readonly lastBlock: QueriedBlock },
  target: Target,
): readonly ChunkGroup[] =>
  splitRange({ from, to: lastBlock.number }, target).map(range => {
    // Blocks above the head stay in the filter of a last chunk, for the node to judge. Several last chunks could disagree about them.
    const mayExceedHead = range.to === lastBlock.number && countListChunks(filter, target) === 1
    const blocks = mayExceedHead ? firstRangeOf({ from: range.from, to }, target) : range
    return {
      blocks: { from: toHexQuantity(blocks.from), to: toHexQuantity(blocks.to) },
      filters: splitByLists(withBlocks(filter, blocks), target),
    }
  })

/** Chunks of one query that are requested at the same time, within the node's `concurrency`: else they would refuse each other. */
const maxParallelChunks = 4

const requestChunks = async (query: SplitQuery, groups: readonly ChunkGroup[], results: Results): Promise<Reply> => {
  const { request, target, limits, maxResults, sendRequest, cancel } = query
  const filters = groups.flatMap(group => group.filters)
  const requestChunk = (chunk: number): Promise<Reply> => sendRequest({ ...request, params: [filters[chunk] ?? {}] })
  const { concurrency = maxParallelChunks } = target
  const bounds = { maxParallelChunks: Math.min(maxParallelChunks, concurrency), maxResults, maxBytes: limits.maxBytes, target }
  const fetched = await fetchChunks(filters.length, requestChunk, bounds, cancel)
  try {
    return await replyOfChunks(query, groups, fetched, results)
  } finally {
    for (const each of fetched.logs) if (each !== undefined) resultMemoryOf(each)?.release() // they have been copied
  }
}

/** Each chunk has been checked against its own filter; the whole is checked against the caller's, in case the chunks are others than they should be. */
const replyOfChunks = async (
  { request, target, maxResults }: SplitQuery,
  groups: readonly ChunkGroup[],
  { logs, failures }: FetchedChunks,
  results: Results,
): Promise<Reply> => {
  const [failure] = failures.values()
  if (failure?.kind === 'tooMany') return withSuggestedRange(failure, suggestRangeOfChunks(groups, logs, failures, maxResults))
  if (failure !== undefined) return failure
  const elements = await mergeChunks(groups, logs, results)
  const metadata = { source: target.source, upstream: target.name }
  if (elements === undefined) return refuse('unavailable', { ...metadata, cause: 'the logs of the chunks are inconsistent' })
  const count = logs.reduce((sum, each) => sum + (each?.count ?? 0), 0)
  return checkLogs({ ...metadata, result: await results.joinArray(elements), count }, expectLogs(request), results)
}

const withSuggestedRange = (failure: Failure, data: Json): Failure => copyReply(failure, { error: { ...failure.error, data } })
