import { isFailure, Leave, refuse } from '../../src/plugin.ts'
import type { Clock, Failure, Heads, Json, Reply, Request, Results, Target, Terms } from '../../src/plugin.ts'
import { countParts, countSpans, filterOf, hex, numberOf, shorten, splitLists, splitSpan, startOf } from './filter.ts'
import type { Filter, Slice } from './filter.ts'
import { gather } from './gather.ts'
import { mergeSlices } from './merge.ts'
import { suggestSlices } from './range.ts'
import { resolveScope, stillStands } from './scope.ts'
import type { Ask, Scope } from './scope.ts'

export type Limits = Pick<Terms, 'timeout' | 'maxBytes' | 'signal'>

/** A query for logs, and the node that is to answer it. */
export interface Query {
  readonly request: Request
  readonly target: Target
  /** For the query as a whole, however many pieces it comes to. */
  readonly limits: Limits
  /** Most logs, for the query as a whole. */
  readonly maxResults: number
  /** Asks the node once; the answer has been judged. */
  ask(request: Request, limits: Limits): Promise<Reply>
}

export interface Tools {
  readonly clock: Clock
  readonly results: Results
  readonly heads: Heads
  /** Most pieces of one query. */
  readonly maxPieces: number
}

/**
 * Asks piece by piece what the node does not take at once, and puts the logs together: those of one chain, in its
 * order, each once, byte for byte, as the chain stood when the query began; or it fails. For this, tags are turned into
 * numbers first, and the last block must have the same hash afterwards: then no block below it was replaced meanwhile.
 * What a number asks for above the head is left to the node, in the last piece, as far as the node takes it.
 */
export const askInPieces = async (query: Query, tools: Tools): Promise<Reply> => {
  const { target, limits } = query
  const filter = shorten(filterOf(query.request), target)
  const request = { ...query.request, params: [filter] }
  if (!mayNeedPieces(filter, target)) return query.ask(request, limits)
  const { ask, cancel } = openAsk(query, tools.clock)
  try {
    return await split({ ...query, request, filter, ask, cancel }, tools)
  } finally {
    cancel()
  }
}

/** Without numbers it cannot be told yet. Logs of the pending block, which moves, cannot be put together. */
const mayNeedPieces = (filter: Filter, target: Target): boolean => {
  const { blockHash, fromBlock, toBlock } = filter
  if (fromBlock === 'pending' || toBlock === 'pending') return false
  if (countParts(filter, target) > 1) return true
  if (target.maxRange === undefined || blockHash !== undefined || fromBlock === toBlock) return false
  const [from, to] = [numberOf(fromBlock), numberOf(toBlock)]
  return from === undefined || to === undefined || to - from >= BigInt(target.maxRange)
}

/** Asks within what is left of the query's time, until the caller leaves or the query is cancelled. */
const openAsk = ({ ask, limits, target }: Query, clock: Clock): { readonly ask: Ask; cancel(): void } => {
  const end = new Leave()
  const deadline = clock.monotonic() + limits.timeout
  const leave = () => end.abort()
  if (limits.signal.aborted) leave()
  else limits.signal.addEventListener('abort', leave)
  return {
    async ask(request) {
      const timeout = deadline - clock.monotonic()
      if (timeout <= 0) return refuse('timeout', { source: target.source, upstream: target.name })
      return ask(request, { ...limits, timeout, signal: end })
    },
    cancel() {
      limits.signal.removeEventListener('abort', leave)
      end.abort()
    },
  }
}

interface Splitting extends Omit<Query, 'ask'> {
  readonly filter: Filter
  readonly ask: Ask
  cancel(): void
}

const split = async (query: Splitting, { results, heads, maxPieces }: Tools): Promise<Reply> => {
  const { filter, target, request, ask } = query
  const parts = countParts(filter, target)
  if (parts > maxPieces) return tooWide(`its addresses and topics are ${parts} queries, more than ${maxPieces}`, target)
  if (filter['blockHash'] !== undefined) return askSlices(query, [{ filters: splitLists(filter, target) }], results)
  const asking = { ask, results, isFinal: (block: bigint) => heads.view.isFinal(target.name, Number(block)) }
  const scope = await resolveScope(filter, asking)
  if (scope === undefined) return ask({ ...request, params: [startOfFilter(filter, target)] })
  if ('error' in scope) return scope
  const count = parts * countSpans({ from: scope.from, to: scope.last.number }, target)
  if (count === 1 && startOf(scope, target).to === scope.to) return ask(request)
  if (count > maxPieces) return tooLong(scope, target, Math.floor(maxPieces / parts))
  const reply = await askSlices(query, slicesOf(filter, scope, target), results)
  return isFailure(reply) ? reply : ((await stillStands(scope.last, asking)) ?? reply)
}

/** Not charged: nothing was asked yet, or nothing but where the head is. Another node may take it as it is. */
const tooWide = (why: string, { name: upstream }: Target, data?: Json): Failure => {
  const message = `the query is too wide: ${why}`
  return refuse('params', { message, ...(data !== undefined && { data }), upstream, meaning: 'tooWide', elsewhere: true })
}

const tooLong = ({ from, last }: Scope, target: Target, spans: number): Failure => {
  const most = BigInt(target.maxRange ?? 1) * BigInt(spans)
  const why = `${last.number - from + 1n} blocks, more than the ${most} that can be asked for at once`
  return tooWide(why, target, { from: hex(from), to: hex(from + most - 1n) })
}

/** For blocks that do not exist yet. */
const startOfFilter = (filter: Filter, target: Target): Filter => {
  const [from, to] = [numberOf(filter['fromBlock']), numberOf(filter['toBlock'])]
  return from === undefined || to === undefined ? filter : { ...filter, toBlock: hex(startOf({ from, to }, target).to) }
}

const slicesOf = (filter: Filter, { from, to, last }: Scope, target: Target): readonly Slice[] =>
  splitSpan({ from, to: last.number }, target).map(span => {
    // What lies above the head stays in the question, for the node to judge.
    const end = span.to === last.number ? startOf({ from: span.from, to }, target).to : span.to
    const blocks = { from: hex(span.from), to: hex(end) }
    const filters = splitLists({ ...filter, fromBlock: blocks.from, toBlock: blocks.to }, target)
    return { blocks, filters }
  })

const askSlices = async (query: Splitting, slices: readonly Slice[], results: Results): Promise<Reply> => {
  const { request, target, limits, maxResults, ask, cancel } = query
  const pieces = slices.flatMap(slice => slice.filters)
  const askPiece = (piece: number): Promise<Reply> => ask({ ...request, params: [pieces[piece] ?? {}] })
  const { concurrency = atOnce } = target
  const bounds = { atOnce: Math.min(atOnce, concurrency), maxResults, maxBytes: limits.maxBytes, target }
  const { logs, failures } = await gather(pieces.length, askPiece, bounds, cancel)
  const [failure] = failures.values()
  if (failure?.kind === 'tooMany') return tooMany(failure, suggestSlices(slices, logs, failures, maxResults))
  if (failure !== undefined) return failure
  const elements = await mergeSlices(slices, logs, results)
  const trail = { source: target.source, upstream: target.name }
  if (elements === undefined) return refuse('unavailable', { ...trail, cause: 'the pieces do not fit together' })
  const count = logs.reduce((sum, each) => sum + (each?.count ?? 0), 0)
  return { ...trail, result: await results.array(elements), count }
}

/** Pieces of one query that are asked at the same time, if the node takes so many calls: they must not push each other out. */
const atOnce = 4

const tooMany = (failure: Failure, data: Json): Failure => ({ ...failure, error: { ...failure.error, data } })
