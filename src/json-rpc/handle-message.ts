import { inspect } from 'node:util'
import type { Json, Origin } from '../plugin/call.ts'
import type { Next } from '../plugin/plugin.ts'
import { isFailure, refuse } from '../plugin/reply.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import type { Log } from '../services/log.ts'
import type { ParseMessage, IncomingRequest } from './parse-request.ts'
import { serializeBatch, serializeResponse } from './serialize-response.ts'
import type { ResponseBody } from './serialize-response.ts'

/** What stands behind a door: the pipeline of a network. */
export interface MessageHandler {
  readonly parse: ParseMessage
  readonly run: Next
  readonly limits: {
    /** Longest answer to a batch, in bytes. */
    readonly batchReply: number
  }
  readonly log: Log
}

/** What a caller gets for one message. */
export interface RpcResponse {
  /** The caller's id as it came, where a single call has one; else `null`. */
  readonly id: string
  /** Undefined when nothing is owed: all calls were notifications. */
  readonly body: ResponseBody | undefined
  /** HTTP status. */
  readonly status: number
  /** Seconds, for the Retry-After header. */
  readonly retryAfter: number | undefined
  /** In order of position; for headers and metrics. */
  readonly replies: readonly Reply[]
}

/** Answers one message, whatever it is. Never throws and never rejects: a bug costs its own call and is logged. */
export const handleMessage = async (handler: MessageHandler, bytes: Uint8Array, origin: Origin): Promise<RpcResponse> => {
  try {
    const message = handler.parse(bytes)
    if ('error' in message) return failureResponse(message)
    if ('message' in message) return singleResponse(await handleRequest(handler, message, origin), message.id)
    return await handleBatch(handler, message, origin)
  } catch (bug) {
    return internalErrorResponse(handler, origin, bug)
  }
}

/** The answer to a message that was refused as a whole: mostly before any call was read from it, which gives it no id. */
export const failureResponse = (failure: Failure, id = 'null'): RpcResponse =>
  singleResponse({ reply: failure, body: serializeResponse(id, failure) }, id)

/** Logs a bug, and answers the whole message with an internal error. */
export const internalErrorResponse = ({ log }: Pick<MessageHandler, 'log'>, origin: FailedOrigin, bug: unknown, id?: string): RpcResponse =>
  failureResponse(logBug(log, origin, bug), id)

/** What the log says of an origin; a request that has not been routed has no network. */
type FailedOrigin = Pick<Origin, 'requestId'> & Partial<Pick<Origin, 'network'>>

/** A call's reply, and how it is told to the caller, if it is. */
interface HandledRequest {
  readonly reply: Reply
  readonly body: ResponseBody | undefined
}

const singleResponse = ({ reply, body }: HandledRequest, id = 'null'): RpcResponse =>
  body === undefined
    ? { id, body, status: 204, retryAfter: undefined, replies: [reply] }
    : isFailure(reply)
      ? { id, body, status: reply.status, retryAfter: reply.retryAfter, replies: [reply] }
      : { id, body, status: 200, retryAfter: undefined, replies: [reply] }

/** Starts the call at once: nothing is awaited before the pipeline runs. */
const handleRequest = async (
  handler: MessageHandler,
  { message, id, refusal }: IncomingRequest,
  origin: Origin,
): Promise<HandledRequest> => {
  try {
    const reply = refusal ?? (await handler.run({ message, origin, signal: undefined, context: {} }))
    return { reply, body: serializeIfOwed(id, reply) }
  } catch (bug) {
    const reply = logBug(handler.log, origin, bug, message)
    return { reply, body: serializeIfOwed(id, reply) }
  }
}

/** A notification is owed no answer, except that it was none: what is not a valid request is always told. */
const serializeIfOwed = (id: string | undefined, reply: Reply): ResponseBody | undefined =>
  id !== undefined
    ? serializeResponse(id, reply)
    : isFailure(reply) && reply.kind === 'invalid'
      ? serializeResponse('null', reply)
      : undefined

/** All calls at once, started in order of position; the answers stand in order of position, notifications left out. */
const handleBatch = async (handler: MessageHandler, batch: readonly IncomingRequest[], origin: Origin): Promise<RpcResponse> => {
  const handled = await Promise.all(batch.map(request => handleRequest(handler, request, origin)))
  let remainingBytes = handler.limits.batchReply - '['.length
  const fitting = handled.map((one, position) => {
    if (one.body === undefined) return one
    const byteLength = one.body.byteLength + ','.length
    if (byteLength > remainingBytes) return replaceOversized(handler, one.reply, batch[position]!, origin)
    remainingBytes -= byteLength
    return one
  })
  const bodies = fitting.flatMap(({ body }) => body ?? [])
  const replies = fitting.map(({ reply }) => reply)
  return bodies.length === 0
    ? { id: 'null', body: undefined, status: 204, retryAfter: undefined, replies }
    : { id: 'null', body: serializeBatch(bodies), status: 200, retryAfter: undefined, replies }
}

/** The call was served, but its answer finds no room in the batch's: it is taken back. */
const replaceOversized = (handler: MessageHandler, reply: Reply, { message, id }: IncomingRequest, origin: Origin): HandledRequest => {
  let refusal = refuse('tooLarge')
  try {
    reply.charge?.refund('tooLarge')
  } catch (bug) {
    refusal = logBug(handler.log, origin, bug, message)
  }
  return { reply: refusal, body: serializeResponse(id ?? 'null', refusal) }
}

const logBug = (log: Log, { requestId, network }: FailedOrigin, bug: unknown, message?: Json): Failure => {
  const stack = bug instanceof Error ? bug.stack : inspect(bug)
  log.error({ requestId, network, method: methodOf(message), stack }, 'a call failed because of a bug')
  return refuse('internal', { data: { requestId } })
}

const methodOf = (message: Json | undefined): string | undefined =>
  typeof message === 'object' && message !== null && 'method' in message && typeof message.method === 'string'
    ? message.method.slice(0, 100)
    : undefined
