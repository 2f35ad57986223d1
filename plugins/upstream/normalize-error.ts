import { copyReply, refuse } from '../../src/plugin/plugin.ts'
import type { Failure, Json, ErrorCategory, Method, MethodTable, Request } from '../../src/plugin/plugin.ts'
import { readSuggestedRange } from './split-logs/suggest-range.ts'

/** What a node's failure comes to for the caller, the same whichever node or provider it was. */
export const normalizeError = (failure: Failure, request: Request, methods: MethodTable): Failure => {
  const { nodeError } = failure
  if (nodeError === undefined) return normalizeNodeError(failure, request, methods)
  const meaning = methods.errorCategory({ code: 0, message: nodeError.message }, request.method)
  if (meaning === undefined || nodeHealthCategories.has(meaning)) return failure
  return normalizeNodeError(copyReply(failure, { kind: 'node', error: nodeError, fault: 'caller', status: 200 }), request, methods)
}

/** What says no more than the HTTP status does, as codes alone do: that the node, or the provider, is not well. */
const nodeHealthCategories: ReadonlySet<ErrorCategory> = new Set(['unauthorized', 'noBackend', 'requestRejected', 'internal'])

const normalizeNodeError = (failure: Failure, { method: name, params: [filter] }: Request, methods: MethodTable): Failure => {
  const meaning =
    failure.kind === 'timeout' ? 'timeout' : failure.kind === 'node' ? methods.errorCategory(failure.error, name) : failure.category
  if (meaning === undefined) return failure
  if (meaning === 'rateLimited' && failure.kind !== 'node') return failure // HTTP has said all there is to say
  return normalizers[meaning](copyReply(failure, { category: meaning }), { method: methods.get(name), filter })
}

interface FailedRequest {
  readonly method: Method | undefined
  readonly filter: Json | undefined
}

type ErrorNormalizer = (failure: Failure, question: FailedRequest) => Failure

const asReported: ErrorNormalizer = failure => failure

const retryOtherNode = (failure: Failure): Failure => copyReply(failure, { retryElsewhere: true })

/** Contract 7. A node's own limit may be a higher one: what it gives up on is over ours too. */
const tooManyResults: ErrorNormalizer = (failure, { method, filter }) => {
  const limit = method?.maxResults
  if (limit === undefined) return failure
  const data = { ...readSuggestedRange(failure.error, filter), limit }
  return refuse('tooMany', { ...metadataOf(failure), message: `query returned more than ${limit} results`, data })
}

/** A query that a living node could not finish in time is the caller's affair, where the contract limits its time. */
const queryTimeout: ErrorNormalizer = (failure, { method, filter }) => {
  if (method?.maxTime === undefined) return noUsableAnswer(failure, 'no answer in time')
  const data = readSuggestedRange(failure.error, filter)
  return refuse('timeout', { ...metadataOf(failure), ...(data && { data }) })
}

/** The code of geth, reth and Erigon. Clients repeat -32005, which cannot help here. */
const rangeTooWide: ErrorNormalizer = (failure, { filter }) => {
  const { message, data } = failure.error
  const error = errorOf(-32602, `the query is too wide: ${message}`, readSuggestedRange(failure.error, filter) ?? data)
  return copyReply(failure, { error, retryElsewhere: true })
}

/**
 * The node's doing, so not charged; yet a question may be what upsets it, so its breaker does not count it. -32000 as
 * viem repeats -32603 four times, and the other nodes have been asked already.
 */
const nodeFault =
  (code: number): ErrorNormalizer =>
  failure =>
    copyReply(failure, { error: { ...failure.error, code }, fault: 'upstream', retryElsewhere: true })

/** Never shown: it is about our account there, not about the caller's. */
const providerFault =
  (what: string): ErrorNormalizer =>
  failure => {
    const retryAfter = readBackoffSeconds(failure.error.data)
    const cause = `${what} (code ${failure.error.code})`
    return refuse('unavailable', { ...metadataOf(failure), cause, ...(retryAfter !== undefined && { retryAfter }) })
  }

const normalizers: Readonly<Record<ErrorCategory, ErrorNormalizer>> = {
  reverted: asReported,
  alreadyKnown: asReported,
  tooMany: tooManyResults,
  rangeTooWide,
  timeout: queryTimeout,
  blockNotFound: retryOtherNode,
  stateUnavailable: retryOtherNode,
  invalidParams: failure => copyReply(failure, { error: { ...failure.error, code: -32602 } }),
  rateLimited: providerFault('over the rate or quota of our account'),
  unauthorized: providerFault('our key is refused'),
  noBackend: providerFault('the provider has no node that can answer'),
  methodNotFound: nodeFault(-32601),
  internal: nodeFault(-32000),
  requestRejected: failure => noUsableAnswer(failure, 'it takes our request for none'),
}

/** Slow or strange, but alive: a question may be what made it so. */
const noUsableAnswer = (failure: Failure, cause: string): Failure =>
  refuse('unavailable', { ...metadataOf(failure), cause, retryAfter: 1, retryElsewhere: true })

const metadataOf = ({ source, upstream, category }: Failure) => ({
  source,
  ...(upstream !== undefined && { upstream }),
  ...(category !== undefined && { category }),
})

const errorOf = (code: number, message: string, data: Json | undefined) =>
  data === undefined ? { code, message } : { code, message, data }

/** Seconds, as Infura tells them: `backoff_seconds`, in older answers under `rate`. */
const readBackoffSeconds = (data: Json | undefined): number | undefined => {
  const { backoff_seconds: seconds, rate }: { backoff_seconds?: Json; rate?: Json } = Object(data)
  if (typeof seconds === 'number' && seconds > 0) return Math.min(60, Math.ceil(seconds))
  return rate === undefined ? undefined : readBackoffSeconds(rate)
}
