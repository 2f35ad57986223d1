import { refuse } from '../../src/plugin.ts'
import type { Failure, Json, Meaning, Method, Methods, Request } from '../../src/plugin.ts'
import { readRange } from './range.ts'

/** What a node's failure comes to for the caller, the same whichever node or provider it was. */
export const judge = (failure: Failure, request: Request, methods: Methods): Failure => {
  const { said } = failure
  if (said === undefined) return judgeError(failure, request, methods)
  const meaning = methods.meaning({ code: 0, message: said.message }, request.method)
  if (meaning === undefined || ill.has(meaning)) return failure
  return judgeError({ ...failure, kind: 'node', error: said, fault: 'caller', status: 200 }, request, methods)
}

/** What says no more than the HTTP status does, as codes alone do: that the node, or the provider, is not well. */
const ill: ReadonlySet<Meaning> = new Set(['denied', 'away', 'misread', 'internal'])

const judgeError = (failure: Failure, { method: name, params: [filter] }: Request, methods: Methods): Failure => {
  const meaning = failure.kind === 'timeout' ? 'timeout' : failure.kind === 'node' ? methods.meaning(failure.error, name) : failure.meaning
  if (meaning === undefined) return failure
  if (meaning === 'limited' && failure.kind !== 'node') return failure // HTTP has said all there is to say
  return verdicts[meaning]({ ...failure, meaning }, { method: methods.get(name), filter })
}

interface Question {
  readonly method: Method | undefined
  readonly filter: Json | undefined
}

type Verdict = (failure: Failure, question: Question) => Failure

const asSaid: Verdict = failure => failure

const elsewhere = (failure: Failure): Failure => ({ ...failure, elsewhere: true })

/** Contract 7. A node's own limit may be a higher one: what it gives up on is over ours too. */
const tooMany: Verdict = (failure, { method, filter }) => {
  const limit = method?.maxResults
  if (limit === undefined) return failure
  const data = { ...readRange(failure.error, filter), limit }
  return refuse('tooMany', { ...trailOf(failure), message: `query returned more than ${limit} results`, data })
}

/** A query that a living node could not finish in time is the caller's affair, where the contract limits its time. */
const late: Verdict = (failure, { method, filter }) => {
  if (method?.maxTime === undefined) return noAnswer(failure, 'no answer in time')
  const data = readRange(failure.error, filter)
  return refuse('timeout', { ...trailOf(failure), ...(data && { data }) })
}

/** The code of geth, reth and Erigon. Clients repeat -32005, which cannot help here. */
const tooWide: Verdict = (failure, { filter }) => {
  const { message, data } = failure.error
  const error = errorOf(-32602, `the query is too wide: ${message}`, readRange(failure.error, filter) ?? data)
  return elsewhere({ ...failure, error })
}

/**
 * The node's doing, so not charged; yet a question may be what upsets it, so its breaker does not count it. -32000 as
 * viem repeats -32603 four times, and the other nodes have been asked already.
 */
const nodesDoing =
  (code: number): Verdict =>
  failure =>
    elsewhere({ ...failure, error: { ...failure.error, code }, fault: 'upstream' })

/** Never shown: it is about our account there, not about the caller's. */
const ownTrouble =
  (what: string): Verdict =>
  failure => {
    const retryAfter = readPause(failure.error.data)
    const cause = `${what} (code ${failure.error.code})`
    return refuse('unavailable', { ...trailOf(failure), cause, ...(retryAfter !== undefined && { retryAfter }) })
  }

const verdicts: Readonly<Record<Meaning, Verdict>> = {
  reverted: asSaid,
  known: asSaid,
  tooMany,
  tooWide,
  timeout: late,
  unknown: elsewhere,
  pruned: elsewhere,
  badParams: failure => ({ ...failure, error: { ...failure.error, code: -32602 } }),
  limited: ownTrouble('over the rate or quota of our account'),
  denied: ownTrouble('our key is refused'),
  away: ownTrouble('the provider has no node that can answer'),
  noMethod: nodesDoing(-32601),
  internal: nodesDoing(-32000),
  misread: failure => noAnswer(failure, 'it takes our request for none'),
}

/** Slow or strange, but alive: a question may be what made it so. */
const noAnswer = (failure: Failure, cause: string): Failure =>
  refuse('unavailable', { ...trailOf(failure), cause, retryAfter: 1, elsewhere: true })

const trailOf = ({ source, upstream, meaning }: Failure) => ({
  source,
  ...(upstream !== undefined && { upstream }),
  ...(meaning !== undefined && { meaning }),
})

const errorOf = (code: number, message: string, data: Json | undefined) =>
  data === undefined ? { code, message } : { code, message, data }

/** Seconds, as Infura tells them: `backoff_seconds`, in older answers under `rate`. */
const readPause = (data: Json | undefined): number | undefined => {
  const { backoff_seconds: seconds, rate }: { backoff_seconds?: Json; rate?: Json } = Object(data)
  if (typeof seconds === 'number' && seconds > 0) return Math.min(60, Math.ceil(seconds))
  return rate === undefined ? undefined : readPause(rate)
}
