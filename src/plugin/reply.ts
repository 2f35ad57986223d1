import type { Json } from './call.ts'
import type { RawJson } from '../json/chunked-bytes.ts'

/** Who made the answer. A `gateway` reply is a refusal; `local` needed no node. */
export type Source = 'gateway' | 'local' | 'cache' | 'node' | 'partner'

/** Whose doing an error is. Breakers count `upstream`; credits are given back for all but `caller`. */
export type Fault = 'caller' | 'upstream' | 'gateway'

/** The error object of JSON-RPC 2.0 (contract 2.3). */
export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: Json
}

interface ReplyMetadata {
  readonly source: Source
  /** Name of the node or partner that was asked. */
  readonly upstream?: string | undefined
  readonly cache?: 'hit' | 'miss' | undefined
  /** Credits kept for this call. */
  readonly credits?: number | undefined
  /** What was drawn for this call. */
  readonly charge?: Charge | undefined
  /** What the call was drawn from, or could not be; told in HTTP headers. */
  readonly quota?: CreditQuota | undefined
}

/** Credits that a call has cost; the door gives them back when it cannot deliver the answer. */
export interface Charge {
  /** `outcome` is what the caller gets instead; only the first time counts. */
  refund(outcome: RefusalKind): void
}

/** An account's credits of one day as this process knows them, without asking anybody; read when an answer is written. */
export interface CreditQuota {
  readonly limit: number
  /** An estimate, as other processes spend too: never below zero, never above the limit. */
  readonly remaining: number
  /** Milliseconds until the next day. */
  readonly resetsInMs: number
}

/** The call succeeded. */
export interface Result extends ReplyMetadata {
  /** The JSON text of the result, as the node wrote it: bytes, or above 16 KiB perhaps `Pieces`. */
  readonly result: RawJson
  /** How many elements `result` has, when it is an array. */
  readonly count?: number | undefined
  /** It is not of the kind that the method gives. Another node may know better, but this is the answer if none does. */
  readonly unexpectedType?: true | undefined
}

/** The call failed. */
export interface Failure extends ReplyMetadata {
  readonly error: RpcError
  readonly fault: Fault
  /** The row of the table below, or `node` for an error that a node gave. */
  readonly kind: RefusalKind | 'node'
  /** HTTP status when the failure is the whole answer; inside a batch it is 200. */
  readonly status: number
  /** Seconds, for the Retry-After header. */
  readonly retryAfter?: number | undefined
  /** The HTTP methods that the path takes, for the Allow header; POST and OPTIONS unless given. */
  readonly allow?: string | undefined
  /** What went wrong behind it, in words for the log; never sent. */
  readonly cause?: string | undefined
  /** The JSON-RPC error that came with an HTTP status that is a failure by itself (5xx). */
  readonly nodeError?: RpcError | undefined
  /** What the node's error means, where its words are known. */
  readonly category?: ErrorCategory | undefined
  /**
   * Another node may know better, but this is the answer if none does. It says nothing about the node's health: callers
   * can bring such errors about as they like.
   */
  readonly retryElsewhere?: true | undefined
  /** The node answered nothing at all, not even what costs it nothing. */
  readonly unresponsive?: true | undefined
}

/** What nodes say in many words, as one word each; the words stand in the `errors` of a method table. */
export const errorCategories = [
  'reverted',
  'alreadyKnown',
  'tooMany',
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

export type ErrorCategory = (typeof errorCategories)[number]

/** What travels up. */
export type Reply = Result | Failure

interface Refusal {
  readonly status: number
  readonly code: number
  readonly message: string
  readonly fault: Fault
  readonly source: Source
}

const refusal = (status: number, code: number, message: string, fault: Fault = 'caller', source: Source = 'gateway'): Refusal => ({
  status,
  code,
  message,
  fault,
  source,
})

/** Every answer that the gateway itself gives in place of a result. docs/errors.md has the same table; a test compares them. */
export const refusals = {
  parse: refusal(200, -32700, 'parse error'),
  invalid: refusal(200, -32600, 'invalid request'),
  method: refusal(200, -32601, 'the method does not exist/is not available'),
  params: refusal(200, -32602, 'invalid params'),
  tooMany: refusal(200, -32005, 'query returned more than 10000 results', 'caller', 'node'),
  timeout: refusal(200, -32005, 'query timeout exceeded', 'caller', 'node'),
  tooLarge: refusal(200, -32003, 'response too large', 'gateway'),
  key: refusal(401, -32090, 'the API key is not valid'),
  forbidden: refusal(200, -32091, 'not allowed for this API key'),
  spent: refusal(402, -33000, 'the daily credits are used up'),
  rate: refusal(429, -32005, 'too many calls per second'),
  unavailable: refusal(503, -32002, 'no upstream can answer now', 'upstream'),
  internal: refusal(200, -32603, 'internal error', 'gateway'),
  notFound: refusal(404, -32090, 'not found'),
  bodyTooLarge: refusal(413, -32600, 'the message is too large'),
  contentType: refusal(415, -32600, 'the content type must be application/json'),
  httpMethod: refusal(405, -32600, 'the HTTP method must be POST'),
  malformed: refusal(400, -32600, 'the HTTP message is malformed'),
  late: refusal(408, -32600, 'the request took too long to arrive'),
  headersTooLarge: refusal(431, -32600, 'the headers are too large'),
} as const satisfies Record<string, Refusal>

export type RefusalKind = keyof typeof refusals

/** What one refusal may say beyond its row, or in place of it. */
export interface RefusalDetails {
  readonly message?: string
  /** For programs; stands in the error. */
  readonly data?: Json
  /** Seconds. */
  readonly retryAfter?: number
  readonly allow?: string
  readonly source?: Source
  readonly fault?: Fault
  readonly upstream?: string
  readonly cause?: string
  readonly category?: ErrorCategory
  readonly retryElsewhere?: true
}

/** The answer of one row of the table. */
export const refuse = (kind: RefusalKind, details: RefusalDetails = {}): Failure => {
  const { status, code, message, fault, source } = refusals[kind]
  const { message: text = message, data, ...rest } = details
  const error: RpcError = data === undefined ? { code, message: text } : { code, message: text, data }
  return { kind, status, fault, source, ...rest, error }
}

export const isFailure = (reply: Reply): reply is Failure => 'error' in reply

/**
 * A copy of the reply with these changes. The one place that copies replies: a member that is missing in copyMembers() does
 * not compile. It takes 30 ns where a spread of replies that were made in different places takes 170 to 360.
 */
export const copyReply = <R extends Reply>(reply: R, changes: Partial<R>): R => {
  const copy = copyMembers(reply) as R // a Result for a Result, a Failure for a Failure
  for (const name in changes) copy[name] = changes[name] as R[typeof name] // only members that are there
  return copy
}

/** The reply with the credits kept for it and the quota they come from. Every call is copied here once: 20 ns. */
export const withCredits = (reply: Reply, credits: number, quota: CreditQuota, charge?: Charge): Reply => {
  const copy = copyMembers(reply)
  copy.credits = credits
  copy.quota = quota
  copy.charge = charge
  return copy
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** Every member of T is there, if only as undefined. */
type Complete<T> = { [Name in keyof Required<T>]: T[Name] }

const copyMembers = (reply: Reply): Mutable<Reply> => (isFailure(reply) ? copyFailure(reply) : copyResult(reply))

const copyResult = ({ result, count, unexpectedType, source, upstream, cache, credits, charge, quota }: Result): Complete<Result> => ({
  result,
  count,
  unexpectedType,
  source,
  upstream,
  cache,
  credits,
  charge,
  quota,
})

const copyFailure = (failure: Failure): Complete<Failure> => {
  const { error, fault, kind, status, retryAfter, allow, cause, nodeError, category, retryElsewhere, unresponsive } = failure
  const { source, upstream, cache, credits, charge, quota } = failure
  return {
    error,
    fault,
    kind,
    status,
    retryAfter,
    allow,
    cause,
    nodeError,
    category,
    retryElsewhere,
    unresponsive,
    source,
    upstream,
    cache,
    credits,
    charge,
    quota,
  }
}

/**
 * The rule of charging: a charge is kept unless nothing was delivered, a node or the gateway is at fault, or a refusal is
 * repeated from memory: the caller paid when a node was asked.
 */
export const isCharged = (reply: Reply): boolean =>
  reply.source !== 'gateway' && !(isFailure(reply) && (reply.fault !== 'caller' || reply.source === 'cache'))
