import { resultMemoryOf, parseJsonHexQuantity } from '../../src/plugin/internal.ts'
import type { Results, RawJson } from '../../src/plugin/internal.ts'
import { copyReply, isFailure, refuse, refuseTooManyResults, toHexQuantity } from '../../src/plugin/plugin.ts'
import type { Failure, Json, Reply, Request, Result } from '../../src/plugin/plugin.ts'
import type { NumberRange } from './block-range.ts'
import { checkLogs, expectLogs } from './check-result.ts'
import type { OpenQuery } from './node-query.ts'
import type { SuggestedRange } from './too-many-results.ts'

/** Some blocks of a query, and requests about just these; a log matches one of the requests at most. */
export interface ChunkGroup {
  /** Undefined where the query names one block by its hash. */
  readonly blocks?: NumberRange
  /** One for each chunk. */
  readonly requests: readonly Request[]
}

/** A result that is an array. */
type LogsResult = Result & { readonly count: number }

/** The logs of each chunk of one query; undefined for a chunk without a result. */
type LogsOfChunks = readonly (LogsResult | undefined)[]

interface FetchedChunks {
  readonly logs: LogsOfChunks
  /** By the chunk's index. Empty when all chunks have results, and are within the limits. */
  readonly failures: ReadonlyMap<number, Failure>
}

/** Each chunk is checked against its own filter; the whole is checked against the caller's, in case the chunks are others than they should be. */
export const requestChunks = async (query: OpenQuery, groups: readonly ChunkGroup[], results: Results): Promise<Reply> => {
  const { request, method, target } = query
  const metadata = { source: target.source, upstream: target.name }
  const requests = groups.flatMap(group => group.requests)
  const { logs, failures } = await fetchChunks(query, requests)
  try {
    const [failure] = failures.values()
    if (failure?.kind === 'tooMany') return withSuggestedRange(failure, suggestRangeOfChunks(groups, logs, failures, maxResultsOf(query)))
    if (failure !== undefined) return failure
    const elements = await mergeChunks(groups, logs, results)
    if (elements === undefined) return refuse('unavailable', { ...metadata, cause: 'the logs of the chunks are inconsistent' })
    const count = logs.reduce((sum, each) => sum + (each?.count ?? 0), 0)
    return await checkLogs({ ...metadata, result: await results.joinArray(elements), count }, expectLogs(request, method), results)
  } finally {
    for (const each of logs) if (each !== undefined) resultMemoryOf(each)?.release() // they have been copied
  }
}

/** For the query as a whole. */
const maxResultsOf = ({ method: { maxResults = Infinity } }: OpenQuery): number => maxResults

const withSuggestedRange = (failure: Failure, data: Json): Failure => copyReply(failure, { error: { ...failure.error, data } })

/** The first groups of chunks that have results and fit; where not even the first group fits, what its node suggests. */
const suggestRangeOfChunks = (
  groups: readonly ChunkGroup[],
  logs: LogsOfChunks,
  failures: ReadonlyMap<number, Failure>,
  limit: number,
): SuggestedRange => {
  let [end, count, chunk]: [number | undefined, number, number] = [undefined, 0, 0]
  for (const { blocks, requests } of groups) {
    for (const each of logs.slice(chunk, (chunk += requests.length))) count += each?.count ?? Infinity
    if (count > limit) break
    end = blocks?.to
  }
  const from = groups[0]?.blocks?.from
  if (from !== undefined && end !== undefined) return { from: toHexQuantity(from), to: toHexQuantity(end), limit }
  const first = groups[0]?.requests.length === 1 ? failures.get(0)?.error.data : undefined
  return (first ?? { limit }) as SuggestedRange // a failure of the kind `tooMany` has no other data
}

/** Chunks of one query that are requested at the same time, within the node's `concurrency`: else they would refuse each other. */
const maxParallelChunks = 4

/**
 * Requests the chunks in order, a few at a time. The first failure ends it and cancels the chunks in flight; but when there
 * are too many logs, chunks in flight may finish: their logs tell which blocks would fit. While they come in, each may have
 * as many bytes as all of them together.
 */
const fetchChunks = async (query: OpenQuery, requests: readonly Request[]): Promise<FetchedChunks> => {
  const { target, limits, sendRequest, cancel } = query
  const [maxResults, { concurrency = maxParallelChunks }] = [maxResultsOf(query), target]
  const logs = new Array<LogsResult | undefined>(requests.length).fill(undefined)
  const failures = new Map<number, Failure>()
  const metadata = { source: target.source, upstream: target.name }
  let [results, bytes] = [0, 0]

  const accept = (reply: Reply, chunk: number): Failure | undefined => {
    if (isFailure(reply)) return reply
    if (!hasCount(reply)) return refuse('unavailable', { ...metadata, cause: 'logs are no array' })
    logs[chunk] = reply
    results += reply.count
    bytes += reply.result.byteLength
    if (results > maxResults) return refuseTooManyResults(maxResults, metadata)
    return bytes > limits.maxBytes ? refuse('tooLarge', metadata) : undefined
  }
  const remaining = requests.entries()
  const worker = async (): Promise<void> => {
    for (const [chunk, request] of remaining) {
      const failure = accept(await sendRequest(request), chunk)
      if (failure !== undefined) failures.set(chunk, failure)
      if (failure !== undefined && failure.kind !== 'tooMany') cancel()
      if (failures.size > 0) return
    }
  }
  await Promise.all(Array.from({ length: Math.min(maxParallelChunks, concurrency, requests.length) }, worker))
  return { logs, failures }
}

const hasCount = (result: Result): result is LogsResult => result.count !== undefined

/**
 * The elements of the whole array, in the order of the chain, byte for byte; several may come as one, with commas between
 * them. Undefined when the chunks cannot be results of requests of which a log matches one at most.
 */
const mergeChunks = async (
  groups: readonly ChunkGroup[],
  logs: LogsOfChunks,
  results: Results,
): Promise<readonly RawJson[] | undefined> => {
  const elements: RawJson[] = []
  let chunk = 0
  for (const { requests } of groups) {
    const nonEmpty = logs.slice(chunk, (chunk += requests.length)).flatMap(each => (each && each.count > 0 ? [each.result] : []))
    const merged = nonEmpty.length > 1 ? await mergeLogs(nonEmpty, results) : nonEmpty.map(elementsOf)
    if (merged === undefined) return undefined
    for (const element of merged) elements.push(element)
  }
  return elements
}

const elementsOf = (array: RawJson): RawJson => array.subarray(1, array.byteLength - 1)

/** A log as its node wrote it, and its position in the chain. */
interface PositionedLog {
  readonly rawJson: RawJson
  readonly block: number
  readonly index: number
}

/** Undefined when a log has no position, or is a duplicate. */
const mergeLogs = async (arrays: readonly RawJson[], results: Results): Promise<readonly RawJson[] | undefined> => {
  const logs: PositionedLog[] = []
  for (const array of arrays) {
    const logsOfArray = await readPositions(array, results)
    if (logsOfArray === undefined) return undefined
    for (const log of logsOfArray) logs.push(log)
  }
  logs.sort((a, b) => a.block - b.block || a.index - b.index)
  const hasDuplicate = logs.some((log, i) => log.block === logs[i - 1]?.block && log.index === logs[i - 1]?.index)
  return hasDuplicate ? undefined : logs.map(log => log.rawJson)
}

const readPositions = async (array: RawJson, results: Results): Promise<readonly PositionedLog[] | undefined> => {
  const objects = await results.extractObjectsAsync(array, ['blockNumber', 'logIndex'])
  const logs = objects?.flatMap(({ rawJson, members }) => {
    const [block, index] = members.map(parseJsonHexQuantity)
    return block === undefined || index === undefined ? [] : [{ rawJson, block, index }]
  })
  return logs?.length === objects?.length ? logs : undefined
}
