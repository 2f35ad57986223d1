import { blockSelectorOf, copyReply, refuse } from '../../src/plugin/plugin.ts'
import type { BlockSelector, Failure, Json, Method, Request, Target } from '../../src/plugin/plugin.ts'
import type { ErrorCategory, MethodTable } from '../../src/plugin/internal.ts'
import { isLimitLower, normalizeTooManyResults, readSuggestedRange } from './too-many-results.ts'

/** The failure as the caller gets it: the same for every node and provider. */
export const normalizeError = (failure: Failure, request: Request, methods: MethodTable): Failure => {
  const { nodeError } = failure
  if (nodeError === undefined) return normalizeNodeError(failure, request, methods)
  const category = methods.errorCategory({ code: 0, message: nodeError.message }, request.method)
  if (category === undefined || nodeHealthCategories.has(category)) return failure
  return normalizeNodeError(copyReply(failure, { kind: 'node', error: nodeError, fault: 'caller', status: 200 }), request, methods)
}

/** These say no more than the HTTP status does: that the node, or the provider, is unhealthy. */
const nodeHealthCategories: ReadonlySet<ErrorCategory> = new Set(['unauthorized', 'noBackend', 'requestRejected', 'internal'])

const normalizeNodeError = (failure: Failure, { method: name, params }: Request, methods: MethodTable): Failure => {
  const category =
    failure.kind === 'timeout' ? 'timeout' : failure.kind === 'node' ? methods.errorCategory(failure.error, name) : failure.category
  if (category === undefined) return withBoundedData(failure)
  if (category === 'rateLimited' && failure.kind !== 'node') return failure // HTTP 429, which has no JSON-RPC error
  const bounded = category === 'reverted' ? failure : withBoundedData(failure)
  const method = methods.get(name)
  return normalizers[category](copyReply(bounded, { category }), { method, blocks: blockSelectorOf(method, params) })
}

/** What a contract returns with a revert belongs to the caller; other data of errors is for programs, and short. */
const maxErrorDataChars = 4_096

const withBoundedData = (failure: Failure): Failure => {
  const { code, message, data } = failure.error
  return data === undefined || JSON.stringify(data).length <= maxErrorDataChars ? failure : copyReply(failure, { error: { code, message } })
}

interface FailedRequest {
  readonly method: Method | undefined
  readonly blocks: BlockSelector | undefined
}

type ErrorNormalizer = (failure: Failure, request: FailedRequest) => Failure

const asReported: ErrorNormalizer = failure => failure

const retryOtherNode = (failure: Failure): Failure => copyReply(failure, { retryElsewhere: true })

/** `isOwnLimit`: whether the node has a limit that another may not have. */
const tooManyResults =
  (isOwnLimit: (failure: Failure, maxResults: number) => boolean): ErrorNormalizer =>
  (failure, { method, blocks }) => {
    if (method?.maxResults === undefined) return failure
    const refusal = normalizeTooManyResults(failure, method.maxResults, blocks)
    return isOwnLimit(failure, method.maxResults) ? retryOtherNode(refusal) : refusal
  }

/** A live node could not finish in time. Whether that is due to the query shows where the other calls of the node are known. */
const queryTimeout: ErrorNormalizer = (failure, { method, blocks }) => {
  if (method?.maxTime === undefined) return unusableResponse(failure, 'upstream request timeout')
  return refuse('timeout', {
    ...metadataOf(failure),
    data: readSuggestedRange(failure.error, blocks),
    fault: 'upstream',
    retryElsewhere: true,
  })
}

/** The same where the time is over between two requests of a query. */
export const timeoutBetweenRequests = ({ source, name: upstream }: Pick<Target, 'source' | 'name'>, query: FailedRequest): Failure =>
  queryTimeout(refuse('timeout', { source, upstream, category: 'timeout' }), query)

/** The code of geth, reth and Erigon. Clients retry -32005, which cannot help here. */
const rangeTooWide: ErrorNormalizer = (failure, { blocks }) => {
  const { message, data } = failure.error
  const error = errorOf(-32602, `the query is too wide: ${message}`, readSuggestedRange(failure.error, blocks) ?? data)
  return copyReply(failure, { error, retryElsewhere: true })
}

/**
 * The node's fault, so not charged; yet the request may be what causes the error, so the circuit breaker does not count it.
 * -32000, as viem retries -32603 four times, and the other nodes have been tried already.
 */
const nodeFault =
  (code: number): ErrorNormalizer =>
  failure =>
    copyReply(failure, { error: { ...failure.error, code }, fault: 'upstream', retryElsewhere: true })

/** The error is not shown to the caller: it is about the gateway's account at the provider, not about the caller's. */
const providerFault =
  (what: string): ErrorNormalizer =>
  failure =>
    refuse('unavailable', {
      ...metadataOf(failure),
      cause: `${what} (code ${failure.error.code})`,
      retryAfter: readBackoffSeconds(failure.error.data),
    })

const normalizers: Readonly<Record<ErrorCategory, ErrorNormalizer>> = {
  reverted: asReported,
  alreadyKnown: asReported,
  tooMany: tooManyResults(isLimitLower),
  tooLarge: tooManyResults(() => true),
  rangeTooWide,
  timeout: queryTimeout,
  blockNotFound: retryOtherNode,
  stateUnavailable: retryOtherNode,
  invalidParams: failure => copyReply(failure, { error: { ...failure.error, code: -32602 } }),
  rateLimited: providerFault('provider rate limit or quota exceeded'),
  unauthorized: providerFault('provider rejected the API key'),
  noBackend: providerFault('provider has no healthy backend'),
  methodNotFound: nodeFault(-32601),
  internal: nodeFault(-32000),
  requestRejected: failure => unusableResponse(failure, 'upstream rejected the request as invalid'),
}

/** The node is alive, and the request may be the cause: no sign of the node's health. */
const unusableResponse = (failure: Failure, cause: string): Failure =>
  refuse('unavailable', { ...metadataOf(failure), cause, retryAfter: 1, retryElsewhere: true })

const metadataOf = ({ source, upstream, category }: Failure) => ({ source, upstream, category })

const errorOf = (code: number, message: string, data: Json | undefined) =>
  data === undefined ? { code, message } : { code, message, data }

const maxRetryAfterSeconds = 60

/** The back-off that Infura asks for: `backoff_seconds`, in older responses under `rate`. */
const readBackoffSeconds = (data: Json | undefined): number | undefined => {
  const { backoff_seconds: seconds, rate }: { backoff_seconds?: Json; rate?: Json } = Object(data)
  if (typeof seconds === 'number' && seconds > 0) return Math.min(maxRetryAfterSeconds, Math.ceil(seconds))
  return rate === undefined ? undefined : readBackoffSeconds(rate)
}
