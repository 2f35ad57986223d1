import { copyReply, isFailure, refuse, resultMemoryOf, toHexQuantity } from '../../../src/plugin/plugin.ts'
import type { ChainSnapshot, Clock, Failure, Heads, Json, Reply, Results, Target } from '../../../src/plugin/plugin.ts'
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
import type { BlockRange, ChunkGroup, FilterParam, ResolvedBlockRange, SendRequest } from './split-filter.ts'

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
 * are left to the node, in the last chunk, as far as the node accepts them.
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
  if (range === undefined) return sendRequest({ ...request, params: [firstRangeOfFilter(filter, target)] })
  if ('error' in range) return range
  const existing = { from: range.from, to: range.lastBlock.number }
  const count = countChunks(existing)
  if (count === 1 && firstRangeOf(range, target).to === range.to) return sendRequest(request)
  if (count > maxChunks) return tooWide(existing)
  const reply = await requestChunks(query, chunkGroupsOf(filter, range, target), results)
  return isFailure(reply) ? reply : ((await checkNotReorged(range.lastBlock, node)) ?? reply)
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

/** For blocks that do not exist yet. */
const firstRangeOfFilter = (filter: FilterParam, target: Target): FilterParam => {
  const [from, to] = [parseBlockNumber(filter['fromBlock']), parseBlockNumber(filter['toBlock'])]
  return from === undefined || to === undefined ? filter : { ...filter, toBlock: toHexQuantity(firstRangeOf({ from, to }, target).to) }
}

const chunkGroupsOf = (filter: FilterParam, { from, to, lastBlock }: ResolvedBlockRange, target: Target): readonly ChunkGroup[] =>
  splitRange({ from, to: lastBlock.number }, target).map(range => {
    // Blocks above the head stay in the filter, for the node to judge.
    const end = range.to === lastBlock.number ? firstRangeOf({ from: range.from, to }, target).to : range.to
    const blocks = { from: toHexQuantity(range.from), to: toHexQuantity(end) }
    const filters = splitByLists({ ...filter, fromBlock: blocks.from, toBlock: blocks.to }, target)
    return { blocks, filters }
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

const replyOfChunks = async (
  { target, maxResults }: SplitQuery,
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
  return { ...metadata, result: await results.joinArray(elements), count }
}

const withSuggestedRange = (failure: Failure, data: Json): Failure => copyReply(failure, { error: { ...failure.error, data } })
