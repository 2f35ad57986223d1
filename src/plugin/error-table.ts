/** Where the reply comes from. A `gateway` reply is a refusal; a `local` reply needed no node. */
export type Source = 'gateway' | 'local' | 'cache' | 'node' | 'partner'

/** Whose fault an error is. Circuit breakers count `upstream`; credits are refunded for all but `caller`. */
export type Fault = 'caller' | 'upstream' | 'gateway'

interface RefusalRow {
  readonly status: number
  readonly code: number
  readonly message: string
  readonly fault: Fault
  readonly source: Source
}

const refusal = (status: number, code: number, message: string, fault: Fault = 'caller', source: Source = 'gateway'): RefusalRow => ({
  status,
  code,
  message,
  fault,
  source,
})

export const tooManyResultsMessage = (maxResults: number): string => `query returned more than ${maxResults} results`

/**
 * Every error that the gateway itself returns, by its kind: HTTP status, code, message, fault and source.
 *
 * docs/errors.md has the same table; a test compares them.
 */
export const refusals = {
  parse: refusal(200, -32700, 'parse error'),
  invalid: refusal(200, -32600, 'invalid request'),
  method: refusal(200, -32601, 'the method does not exist/is not available'),
  params: refusal(200, -32602, 'invalid params'),
  tooMany: refusal(200, -32005, tooManyResultsMessage(10_000), 'caller', 'node'),
  timeout: refusal(200, -32005, 'query timeout exceeded', 'caller', 'node'),
  notMined: refusal(200, 4, 'the transaction was sent, and no block has it yet', 'caller', 'node'),
  tooLarge: refusal(200, -32003, 'response too large', 'caller', 'node'),
  key: refusal(401, -32090, 'the API key is not valid'),
  forbidden: refusal(200, -32091, 'not allowed for this API key'),
  spent: refusal(402, -33000, 'the daily credits are used up'),
  rate: refusal(429, -32005, 'too many calls per second'),
  tooManySubscriptions: refusal(200, -32005, 'too many subscriptions'),
  unknownSubscription: refusal(200, -32000, 'subscription not found'),
  failing: refusal(429, -32005, 'too many of the recent calls failed; retry later'),
  unavailable: refusal(503, -32002, 'no upstream can answer now', 'upstream'),
  internal: refusal(200, -32603, 'internal error', 'gateway'),
  notFound: refusal(404, -32090, 'not found'),
  bodyTooLarge: refusal(413, -32600, 'the message is too large'),
  contentType: refusal(415, -32600, 'the content type must be application/json'),
  httpMethod: refusal(405, -32600, 'the HTTP method must be POST'),
  upgradeRequired: refusal(426, -32600, 'this path takes WebSocket upgrades'),
  malformed: refusal(400, -32600, 'the HTTP message is malformed'),
  late: refusal(408, -32600, 'the request took too long to arrive'),
  headersTooLarge: refusal(431, -32600, 'the headers are too large'),
} as const satisfies Record<string, RefusalRow>

/** The name of a refusal, such as `forbidden`. */
export type RefusalKind = keyof typeof refusals

/** What errors of nodes can mean; the patterns of their messages are the `errors` of a method table. */
export const errorCategories = [
  'reverted',
  'alreadyKnown',
  'tooMany',
  'tooLarge',
  'rangeTooWide',
  'timeout',
  'blockNotFound',
  'stateUnavailable',
  'invalidParams',
  'rateLimited',
  'unauthorized',
  'noBackend',
  'methodNotFound',
  'requestRejected',
  'internal',
] as const

/** What an error of a node means. */
export type ErrorCategory = (typeof errorCategories)[number]
