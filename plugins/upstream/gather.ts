import { isFailure, refuse } from '../../src/plugin.ts'
import type { Failure, Reply, Result, Target } from '../../src/plugin.ts'

/** A result that is an array. */
export type Logs = Result & { readonly count: number }

/** What pieces of one query have come to; a piece that was not answered has a hole. */
export interface Gathered {
  readonly logs: readonly (Logs | undefined)[]
  /** By piece. None: all pieces are answered, and within the limits. */
  readonly failures: ReadonlyMap<number, Failure>
}

export interface Bounds {
  /** Most pieces that are asked at the same time. */
  readonly atOnce: number
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
export const gather = async (
  count: number,
  ask: (piece: number) => Promise<Reply>,
  { atOnce, maxResults, maxBytes, target }: Bounds,
  cancel: () => void,
): Promise<Gathered> => {
  const logs = new Array<Logs | undefined>(count).fill(undefined)
  const failures = new Map<number, Failure>()
  let [next, results, bytes] = [0, 0, 0]
  const trail = { source: target.source, upstream: target.name }

  const take = (reply: Reply, piece: number): Failure | undefined => {
    if (isFailure(reply)) return reply
    if (!isArray(reply)) return refuse('unavailable', { ...trail, cause: 'logs are no array' })
    logs[piece] = reply
    results += reply.count
    bytes += reply.result.byteLength
    if (results > maxResults) return refuse('tooMany', { ...trail, message: `query returned more than ${maxResults} results` })
    return bytes > maxBytes ? refuse('tooLarge', { ...trail, elsewhere: true }) : undefined
  }
  const work = async (): Promise<void> => {
    while (failures.size === 0 && next < count) {
      const piece = next++
      const failure = take(await ask(piece), piece)
      if (failure === undefined) continue
      failures.set(piece, failure)
      if (failure.kind !== 'tooMany') cancel()
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, work))
  return { logs, failures }
}

const isArray = (result: Result): result is Logs => result.count !== undefined
