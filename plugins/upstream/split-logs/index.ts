import { copyReply, isFailure, Cancellation, refuse } from '../../../src/plugin/plugin.ts'
import type { Clock, Failure, Heads, Json, Reply, Request, Results, Target, RequestOptions } from '../../../src/plugin/plugin.ts'
import {
  countListChunks,
  countRanges,
  filterOf,
  hex,
  parseBlockNumber,
  removeDuplicates,
  splitByLists,
  splitRange,
  firstRangeOf,
} from './log-filter.ts'
import type { LogFilter, ChunkGroup } from './log-filter.ts'
import { fetchChunks } from './fetch-chunks.ts'
import { mergeChunks } from './merge-chunks.ts'
import { suggestRangeOfChunks } from './suggest-range.ts'
import { resolveBlockRange, checkNotReorged } from './resolve-block-range.ts'
import type { SendRequest, ResolvedBlockRange } from './resolve-block-range.ts'

export type RequestLimits = Pick<RequestOptions, 'timeoutMs' | 'maxBytes' | 'signal'>

/** A query for logs, and the node that is to answer it. */
export interface LogsQuery {
  readonly request: Request
  readonly target: Target
  /** For the query as a whole, however many pieces it comes to. */
  readonly limits: RequestLimits
  /** Most logs, for the query as a whole. */
  readonly maxResults: number
  /** Asks the node once; the answer has been judged. */
  sendRequest(request: Request, limits: RequestLimits): Promise<Reply>
}

export interface SplitServices {
  readonly clock: Clock
  readonly results: Results
  readonly heads: Heads
  /** Most pieces of one query. */
  readonly maxChunks: number
}

/**
 * Asks piece by piece what the node does not take at once, and puts the logs together: those of one chain, in its
 * order, each once, byte for byte, as the chain stood when the query began; or it fails. For this, tags are turned into
 * numbers first, and the last block must have the same hash afterwards: then no block below it was replaced meanwhile.
 * What a number asks for above the head is left to the node, in the last piece, as far as the node takes it.
 */
export const requestInChunks = async (query: LogsQuery, services: SplitServices): Promise<Reply> => {
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

/** Without numbers it cannot be told yet. Logs of the pending block, which moves, cannot be put together. */
const mayNeedChunks = (filter: LogFilter, target: Target): boolean => {
  const { blockHash, fromBlock, toBlock } = filter
  if (fromBlock === 'pending' || toBlock === 'pending') return false
  if (countListChunks(filter, target) > 1) return true
  if (target.maxRange === undefined || blockHash !== undefined || fromBlock === toBlock) return false
  const [from, to] = [parseBlockNumber(fromBlock), parseBlockNumber(toBlock)]
  return from === undefined || to === undefined || to - from >= BigInt(target.maxRange)
}

/** Asks within what is left of the query's time, until the caller leaves or the query is cancelled. */
const openDeadline = ({ sendRequest, limits, target }: LogsQuery, clock: Clock): { readonly sendRequest: SendRequest; cancel(): void } => {
  const cancellation = new Cancellation()
  const deadline = clock.monotonic() + limits.timeoutMs
  const abort = () => cancellation.abort()
  if (limits.signal.aborted) abort()
  else limits.signal.addEventListener('abort', abort)
  return {
    async sendRequest(request) {
      const timeoutMs = deadline - clock.monotonic()
      if (timeoutMs <= 0) return refuse('timeout', { source: target.source, upstream: target.name })
      return sendRequest(request, { ...limits, timeoutMs, signal: cancellation })
    },
    cancel() {
      limits.signal.removeEventListener('abort', abort)
      cancellation.abort()
    },
  }
}

interface SplitQuery extends Omit<LogsQuery, 'ask'> {
  readonly filter: LogFilter
  readonly sendRequest: SendRequest
  cancel(): void
}

const splitAndMerge = async (query: SplitQuery, { results, heads, maxChunks }: SplitServices): Promise<Reply> => {
  const { filter, target, request, sendRequest } = query
  const listChunks = countListChunks(filter, target)
  if (listChunks > maxChunks) return rangeTooWide(`its addresses and topics are ${listChunks} queries, more than ${maxChunks}`, target)
  if (filter['blockHash'] !== undefined) return requestChunks(query, [{ filters: splitByLists(filter, target) }], results)
  const node = { sendRequest, results, isFinal: (block: bigint) => heads.snapshot.isFinal(target.name, Number(block)) }
  const range = await resolveBlockRange(filter, node)
  if (range === undefined) return sendRequest({ ...request, params: [firstRangeOfFilter(filter, target)] })
  if ('error' in range) return range
  const count = listChunks * countRanges({ from: range.from, to: range.lastBlock.number }, target)
  if (count === 1 && firstRangeOf(range, target).to === range.to) return sendRequest(request)
  if (count > maxChunks) return rangeTooLong(range, target, Math.floor(maxChunks / listChunks))
  const reply = await requestChunks(query, chunkGroupsOf(filter, range, target), results)
  return isFailure(reply) ? reply : ((await checkNotReorged(range.lastBlock, node)) ?? reply)
}

/** Not charged: nothing was asked yet, or nothing but where the head is. Another node may take it as it is. */
const rangeTooWide = (reason: string, { name: upstream }: Target, data?: Json): Failure => {
  const message = `the query is too wide: ${reason}`
  return refuse('params', { message, ...(data !== undefined && { data }), upstream, category: 'rangeTooWide', retryElsewhere: true })
}

const rangeTooLong = ({ from, lastBlock }: ResolvedBlockRange, target: Target, maxRanges: number): Failure => {
  const maxBlocks = BigInt(target.maxRange ?? 1) * BigInt(maxRanges)
  const why = `${lastBlock.number - from + 1n} blocks, more than the ${maxBlocks} that can be asked for at once`
  return rangeTooWide(why, target, { from: hex(from), to: hex(from + maxBlocks - 1n) })
}

/** For blocks that do not exist yet. */
const firstRangeOfFilter = (filter: LogFilter, target: Target): LogFilter => {
  const [from, to] = [parseBlockNumber(filter['fromBlock']), parseBlockNumber(filter['toBlock'])]
  return from === undefined || to === undefined ? filter : { ...filter, toBlock: hex(firstRangeOf({ from, to }, target).to) }
}

const chunkGroupsOf = (filter: LogFilter, { from, to, lastBlock }: ResolvedBlockRange, target: Target): readonly ChunkGroup[] =>
  splitRange({ from, to: lastBlock.number }, target).map(span => {
    // What lies above the head stays in the question, for the node to judge.
    const end = span.to === lastBlock.number ? firstRangeOf({ from: span.from, to }, target).to : span.to
    const blocks = { from: hex(span.from), to: hex(end) }
    const filters = splitByLists({ ...filter, fromBlock: blocks.from, toBlock: blocks.to }, target)
    return { blocks, filters }
  })

const requestChunks = async (query: SplitQuery, groups: readonly ChunkGroup[], results: Results): Promise<Reply> => {
  const { request, target, limits, maxResults, sendRequest, cancel } = query
  const chunks = groups.flatMap(slice => slice.filters)
  const requestChunk = (piece: number): Promise<Reply> => sendRequest({ ...request, params: [chunks[piece] ?? {}] })
  const { concurrency = maxParallelChunks } = target
  const bounds = { maxParallelChunks: Math.min(maxParallelChunks, concurrency), maxResults, maxBytes: limits.maxBytes, target }
  const { logs, failures } = await fetchChunks(chunks.length, requestChunk, bounds, cancel)
  const [failure] = failures.values()
  if (failure?.kind === 'tooMany') return withSuggestedRange(failure, suggestRangeOfChunks(groups, logs, failures, maxResults))
  if (failure !== undefined) return failure
  const elements = await mergeChunks(groups, logs, results)
  const trail = { source: target.source, upstream: target.name }
  if (elements === undefined) return refuse('unavailable', { ...trail, cause: 'the pieces do not fit together' })
  const count = logs.reduce((sum, each) => sum + (each?.count ?? 0), 0)
  return { ...trail, result: await results.joinArray(elements), count }
}

/** Pieces of one query that are asked at the same time, if the node takes so many calls: they must not push each other out. */
const maxParallelChunks = 4

const withSuggestedRange = (failure: Failure, data: Json): Failure => copyReply(failure, { error: { ...failure.error, data } })
