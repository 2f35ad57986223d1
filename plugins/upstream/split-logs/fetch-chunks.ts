import { isFailure, refuse } from '../../../src/plugin/plugin.ts'
import type { Failure, Reply, Result, Target } from '../../../src/plugin/plugin.ts'

/** A result that is an array. */
export type LogsResult = Result & { readonly count: number }

/** What pieces of one query have come to; a piece that was not answered has a hole. */
export interface FetchedChunks {
  readonly logs: readonly (LogsResult | undefined)[]
  /** By piece. None: all pieces are answered, and within the limits. */
  readonly failures: ReadonlyMap<number, Failure>
}

export interface FetchLimits {
  /** Most pieces that are asked at the same time. */
  readonly maxParallelChunks: number
  /** Most logs of all pieces together. */
  readonly maxResults: number
  /** Most bytes of all pieces together; while they come in, as much for each of those asked at the same time. */
  readonly maxBytes: number
  readonly target: Target
}

/**
 * Asks the pieces in order, a few at a time. The first failure ends it, and `cancel` those under way; but when there
 * are too many logs they may finish: what they hold tells which blocks would fit.
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

  const accept = (reply: Reply, piece: number): Failure | undefined => {
    if (isFailure(reply)) return reply
    if (!hasCount(reply)) return refuse('unavailable', { ...metadata, cause: 'logs are no array' })
    logs[piece] = reply
    results += reply.count
    bytes += reply.result.byteLength
    if (results > maxResults) return refuse('tooMany', { ...metadata, message: `query returned more than ${maxResults} results` })
    return bytes > maxBytes ? refuse('tooLarge', { ...metadata, retryElsewhere: true }) : undefined
  }
  const worker = async (): Promise<void> => {
    while (failures.size === 0 && next < count) {
      const piece = next++
      const failure = accept(await fetchChunk(piece), piece)
      if (failure === undefined) continue
      failures.set(piece, failure)
      if (failure.kind !== 'tooMany') cancel()
    }
  }
  await Promise.all(Array.from({ length: Math.min(maxParallelChunks, count) }, worker))
  return { logs, failures }
}

const hasCount = (result: Result): result is LogsResult => result.count !== undefined
