import type { Json } from './call.ts'
import { memoryOf } from '../json/chunked-bytes.ts'
import type { RawJson } from '../json/chunked-bytes.ts'
import type { ResultMemory } from '../json/result-memory.ts'
import { didYouMean, formatSuggestion } from '../util/did-you-mean.ts'
import { refusals, tooManyResultsMessage } from './error-table.ts'
import type { ErrorCategory, Fault, RefusalKind, Source } from './error-table.ts'

/** The error object of JSON-RPC 2.0 (contract 2.3). */
export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data?: Json
}

interface ReplyMetadata {
  readonly source: Source
  /** Name of the node or partner that the request was sent to. */
  readonly upstream?: string | undefined
  readonly cache?: 'hit' | 'miss' | undefined
  /** Credits kept for this call. */
  readonly credits?: number | undefined
  /** The charge for this call. */
  readonly charge?: Charge | undefined
  /** The account's credits of the day, for the HTTP headers. */
  readonly quota?: CreditQuota | undefined
  /** What is left of a limit per second, for the HTTP headers. */
  readonly rateQuota?: RateQuota | undefined
  /**
   * Called once: with true when the system has taken the whole response, with false when the caller does not get it (the caller has left, the
   * response does not fit, or another one takes its place).
   */
  readonly onSettled?: ((isDelivered: boolean) => void) | undefined
  /** How nodes were requested for this call; absent where none was. */
  readonly upstreamRequest?: UpstreamAttempts | undefined
}

/** The requests to nodes that a call has caused, or has joined. */
interface UpstreamAttempts {
  /** The `requestId` in log lines about the nodes. */
  readonly id: string
  readonly attempts: number
  /** From the first attempt to the reply, all attempts and waits together. */
  readonly durationMs: number
}

/** Credits that a call has cost, for the server when it cannot deliver the response. `outcome` is what the caller gets instead; only the first one counts. */
export interface Charge {
  refund(outcome: RefusalKind): void
  /** The call is paid for all the same. */
  keep(outcome: RefusalKind): void
}

/** An account's credits of one day as this process knows them, without a store request; read when a response is written. */
export interface CreditQuota {
  readonly limit: number
  /** An estimate, as other processes spend too: never below zero, never above the limit. */
  readonly remaining: number
  /** Milliseconds until the next day. */
  readonly resetsInMs: number
}

/** What is left of a token bucket: that of an account, a key or an address. */
export interface RateQuota {
  readonly name: 'calls' | 'credits'
  /** Tokens of a full bucket. */
  readonly limit: number
  /** In which an empty bucket becomes full. */
  readonly windowMs: number
  readonly remaining: number
  /** Milliseconds until the bucket is full. */
  readonly resetsInMs: number
}

/**
 * What a result has been verified by, the strongest first: a proof against a block's header, upstreams that have the same, or checks of what can be computed
 * from the result itself. `none`: nothing.
 */
export type Verification = (typeof verifications)[number]

export const verifications = ['proof', 'quorum', 'check', 'none'] as const

/** The call succeeded. */
export interface Result extends ReplyMetadata {
  /** The JSON text of the result, as the node wrote it: bytes, or above 16 KiB perhaps ChunkedBytes. */
  readonly result: RawJson
  /** How many elements `result` has, when it is an array. */
  readonly count?: number | undefined
  /** The result is not of the method's type. Another node may know better, but this is the reply if none does. */
  readonly unexpectedType?: true | undefined
  /** Absent where no plugin verifies results. */
  readonly verified?: Verification | undefined
}

/** The call failed. */
export interface Failure extends ReplyMetadata {
  readonly error: RpcError
  readonly fault: Fault
  /** The row of the table, or `node` for an error that a node returned. */
  readonly kind: RefusalKind | 'node'
  /** HTTP status when the failure is the whole response; inside a batch it is 200. */
  readonly status: number
  /** Seconds, for the Retry-After header. */
  readonly retryAfter?: number | undefined
  /** The HTTP methods that the path accepts, for the Allow header; POST and OPTIONS unless given. */
  readonly allow?: string | undefined
  /** What went wrong upstream, in words for the log; never sent to the caller. */
  readonly cause?: string | undefined
  /** The JSON-RPC error in the body of a response with HTTP status 5xx. */
  readonly nodeError?: RpcError | undefined
  /** What the node's error means, where its message matches a pattern of the method table. */
  readonly category?: ErrorCategory | undefined
  /** Of a method that the network does not have: the one that was probably meant. */
  readonly meant?: string | undefined
  /**
   * Another node may know better, but this is the reply if none does. Above failover: a node that was not requested, or failed
   * otherwise, may. It says nothing about the node's health: callers can
   * cause such errors as they like.
   */
  readonly retryElsewhere?: true | undefined
  /** The node did not even respond to a health check. */
  readonly unresponsive?: true | undefined
}

/** A failure of one of the kinds in `refusals`. */
export interface Refusal extends Failure {
  readonly kind: RefusalKind
}

/** What a handler returns: the outcome of a call. */
export type Reply = Result | Failure

/** What one refusal adds to its row, or replaces. */
export interface RefusalDetails
  extends Partial<
    Pick<Failure, 'retryAfter' | 'allow' | 'source' | 'fault' | 'upstream' | 'cause' | 'category' | 'meant' | 'retryElsewhere'>
  > {
  readonly message?: string
  /** For programs; a member of the error. */
  readonly data?: Json | undefined
}

/** A failure of one of the kinds in `refusals`, such as `refuse('forbidden', { message, data })`. */
export const refuse = (kind: RefusalKind, details: RefusalDetails = {}): Refusal => {
  // A plugin in JavaScript may name a kind that is none.
  if (!Object.hasOwn(refusals, kind)) {
    const { fault, fix } = explainUnknownRefusal(kind)
    throw new TypeError(`${fault}: ${fix}`)
  }
  const { status, code, message, fault, source } = refusals[kind]
  const { message: text = message, data, ...rest } = details
  const error: RpcError = data === undefined ? { code, message: text } : { code, message: text, data }
  return { kind, status, fault, source, ...rest, error }
}

/** What is wrong with refuse() of a kind that is none. */
export const explainUnknownRefusal = (kind: string): { readonly fault: string; readonly fix: string } => {
  const kinds = Object.keys(refusals)
  return { fault: `refuse('${kind}'), which is no refusal`, fix: didYouMean(kind, kinds) ?? `the refusals are ${kinds.join(', ')}` }
}

/** The failure `tooMany` with the limit of a method, in the words that clients look for (contract 7). */
export const refuseTooManyResults = (maxResults: number, details: Omit<RefusalDetails, 'message'>): Failure =>
  refuse('tooMany', { ...details, message: tooManyResultsMessage(maxResults) })

/** The failure `method` with the message of geth, which clients look for. The name comes from the caller: it is shortened, and made printable. `meant` is offered. */
export const refuseUnknownMethod = (name: string, meant?: string): Failure => {
  const shown = (name.length > 40 ? `${name.slice(0, 37)}...` : name).replace(/[^ -~]/g, '?')
  const hint = meant === undefined ? '' : `; ${formatSuggestion(meant)}`
  return refuse('method', { message: `the method ${shown} does not exist/is not available${hint}`, meant })
}

/**
 * The failure for a result of a node that cannot be right, in place of it: another node is requested. The node's breaker is left alone, as callers
 * can find out which requests a node gets wrong. `cause` is for the log.
 */
export const refuseWrongResult = ({ source, upstream }: Result, cause: string): Failure =>
  refuse('unavailable', { source, upstream, cause: `wrong result: ${cause}`, retryAfter: 1, retryElsewhere: true })

/** Tells a failure from a result. */
export const isFailure = (reply: Reply): reply is Failure => 'error' in reply

/**
 * The memory of a result above 256 KiB as its node sent it. A reply is one holder of it. Whoever returns the reply to several callers, or keeps
 * it, adds holders; whoever drops it releases the memory.
 */
export const resultMemoryOf = (reply: Reply): ResultMemory | undefined => (isFailure(reply) ? undefined : memoryOf(reply.result))

/** For a reply that is not passed on: frees the memory of a long result. Nobody may read the result afterwards. */
export const releaseResult = (reply: Reply): void => void resultMemoryOf(reply)?.release()

/**
 * Whether the call is charged: a charge is kept unless nothing was delivered, a node or the gateway is at fault, or a refusal is
 * repeated from the cache: the caller paid when a node was requested.
 */
export const isCharged = (reply: Reply): boolean =>
  reply.source !== 'gateway' && !(isFailure(reply) && (reply.fault !== 'caller' || reply.source === 'cache'))

/**
 * A copy of the reply with these changes. Another result has neither the `count` nor the `verified` of the one before, unless they are among the changes.
 *
 * The one place that copies replies: a member that is missing in copyMembers() does
 * not compile. It takes 30 ns where a spread of replies that were made in different places takes 170 to 360. Write the changes out: V8 takes
 * 2 us to go through the members of an object that was made with a spread.
 */
export const copyReply = <R extends Reply>(reply: R, changes: Partial<R>): R => {
  const members = copyMembers(reply)
  if ('result' in changes && 'result' in members) {
    members.count = undefined
    members.verified = undefined
  }
  const copy = members as R // a Result for a Result, a Failure for a Failure
  for (const name in changes) copy[name] = changes[name] as R[typeof name] // only members that are there
  return copy
}

/** The result with the same JSON text in other memory. */
export const withSameText = (result: Result, text: RawJson): Result => {
  const copy: Writable<Result> = copyResult(result)
  copy.result = text
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

/** The result with what it was verified by. Each call with the policy `off` is copied here once: 20 ns, where copyReply() takes 200. */
export const withVerification = (result: Result, verified: Verification): Result => {
  const copy: Writable<Result> = copyResult(result)
  copy.verified = verified
  return copy
}

type Writable<T> = { -readonly [Name in keyof T]: T[Name] }

/** Every member of T is there, if only as undefined. */
type Complete<T> = { [Name in keyof Required<T>]: T[Name] }

const copyMembers = (reply: Reply): Writable<Reply> => (isFailure(reply) ? copyFailure(reply) : copyResult(reply))

const copyResult = ({
  result,
  count,
  unexpectedType,
  verified,
  source,
  upstream,
  cache,
  credits,
  charge,
  quota,
  rateQuota,
  onSettled,
  upstreamRequest,
}: Result): Complete<Result> => ({
  result,
  count,
  unexpectedType,
  verified,
  source,
  upstream,
  cache,
  credits,
  charge,
  quota,
  rateQuota,
  onSettled,
  upstreamRequest,
})

const copyFailure = (failure: Failure): Complete<Failure> => {
  const { error, fault, kind, status, retryAfter, allow, cause, nodeError, category, meant, retryElsewhere, unresponsive } = failure
  const { source, upstream, cache, credits, charge, quota, rateQuota, onSettled, upstreamRequest } = failure
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
    meant,
    retryElsewhere,
    unresponsive,
    source,
    upstream,
    cache,
    credits,
    charge,
    quota,
    rateQuota,
    onSettled,
    upstreamRequest,
  }
}
