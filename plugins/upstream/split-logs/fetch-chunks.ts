import type { Results } from '../../../src/plugin/internal.ts'
import { isFailure, parseJsonHexQuantity, refuse, refuseTooManyResults } from '../../../src/plugin/plugin.ts'
import type { Failure, RawJson, Reply, Result, Target } from '../../../src/plugin/plugin.ts'
import type { ChunkGroup } from './split-filter.ts'

/** A result that is an array. */
type LogsResult = Result & { readonly count: number }

/** The logs of each chunk of one query; undefined for a chunk without a result. */
export type LogsOfChunks = readonly (LogsResult | undefined)[]

export interface FetchedChunks {
  readonly logs: LogsOfChunks
  /** By the chunk's index. Empty when all chunks have results, and are within the limits. */
  readonly failures: ReadonlyMap<number, Failure>
}

interface FetchLimits {
  /** Most chunks that are requested at the same time. */
  readonly maxParallelChunks: number
  /** Most logs of all chunks together. */
  readonly maxResults: number
  /** Most bytes of all chunks together; while they come in, as much for each chunk in flight. */
  readonly maxBytes: number
  readonly target: Target
}

/**
 * Requests the chunks in order, a few at a time. The first failure ends it and cancels the chunks in flight; but when there
 * are too many logs, chunks in flight may finish: their logs tell which blocks would fit.
 */
export const fetchChunks = async (
  count: number,
  fetchChunk: (chunk: number) => Promise<Reply>,
  { maxParallelChunks, maxResults, maxBytes, target }: FetchLimits,
  cancel: () => void,
): Promise<FetchedChunks> => {
  const logs = new Array<LogsResult | undefined>(count).fill(undefined)
  const failures = new Map<number, Failure>()
  let [next, results, bytes] = [0, 0, 0]
  const metadata = { source: target.source, upstream: target.name }

  const accept = (reply: Reply, chunk: number): Failure | undefined => {
    if (isFailure(reply)) return reply
    if (!hasCount(reply)) return refuse('unavailable', { ...metadata, cause: 'logs are no array' })
    logs[chunk] = reply
    results += reply.count
    bytes += reply.result.byteLength
    if (results > maxResults) return refuseTooManyResults(maxResults, metadata)
    return bytes > maxBytes ? refuse('tooLarge', metadata) : undefined
  }
  const worker = async (): Promise<void> => {
    while (failures.size === 0 && next < count) {
      const chunk = next++
      const failure = accept(await fetchChunk(chunk), chunk)
      if (failure === undefined) continue
      failures.set(chunk, failure)
      if (failure.kind !== 'tooMany') cancel()
    }
  }
  await Promise.all(Array.from({ length: Math.min(maxParallelChunks, count) }, worker))
  return { logs, failures }
}

const hasCount = (result: Result): result is LogsResult => result.count !== undefined

/**
 * The elements of the whole array, in the order of the chain, byte for byte; several may come as one, with commas between
 * them. Undefined when the chunks cannot be results of filters of which a log matches one at most.
 */
export const mergeChunks = async (
  groups: readonly ChunkGroup[],
  logs: LogsOfChunks,
  results: Results,
): Promise<readonly RawJson[] | undefined> => {
  const elements: RawJson[] = []
  let chunk = 0
  for (const { filters } of groups) {
    const nonEmpty = logs.slice(chunk, (chunk += filters.length)).flatMap(each => (each && each.count > 0 ? [each.result] : []))
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
