import { inspect } from 'node:util'
import type { Json, Origin } from '../plugin/call.ts'
import type { Next } from '../plugin/plugin.ts'
import { isFailure, refuse } from '../plugin/reply.ts'
import type { Failure, Reply } from '../plugin/reply.ts'
import type { Log } from '../services/log.ts'
import { methodNameOf } from '../util/json.ts'
import type { IncomingRequest, ParseMessage } from './parse-request.ts'
import { serializeBatch, serializeResponse } from './serialize-response.ts'
import type { ResponseBody } from './serialize-response.ts'

/** What messages to one network are handled with. */
export interface MessageHandler {
  readonly parse: ParseMessage
  /** The network's pipeline. */
  readonly run: Next
  readonly limits: {
    /** Most bytes of the response to a batch. */
    readonly batchReply: number
  }
  readonly log: Log
}

/** The response to one message. */
export interface RpcResponse {
  /** The id of a single call as it came; else `null`. */
  readonly id: string
  /** Undefined when all calls were notifications, which get no response. */
  readonly body: ResponseBody | undefined
  /** HTTP status. */
  readonly status: number
  /** Seconds, for the Retry-After header. */
  readonly retryAfter: number | undefined
  /** In the order of the calls; for headers and metrics. */
  readonly replies: readonly Reply[]
}

/** Responds to one message, whatever it is. Never throws and never rejects: a bug fails its own call and is logged. */
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

/** The response to a message that was refused as a whole: mostly before it was parsed, so without an id. */
export const failureResponse = (failure: Failure, id = 'null'): RpcResponse =>
  singleResponse({ reply: failure, body: serializeResponse(id, failure) }, id)

/** Logs a bug; the response to the whole message is an internal error. */
export const internalErrorResponse = ({ log }: Pick<MessageHandler, 'log'>, origin: FailedOrigin, bug: unknown, id?: string): RpcResponse =>
  failureResponse(logBug(log, origin, bug), id)

/** What the log says of an origin; a request that was not routed has no network. */
type FailedOrigin = Pick<Origin, 'requestId'> & Partial<Pick<Origin, 'network'>>

/** A call's reply, and its serialized response, if it gets one. */
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

/** Runs the pipeline at once: nothing is awaited before. */
const handleRequest = async (
  handler: MessageHandler,
  { message, id, refusal }: IncomingRequest,
  origin: Origin,
): Promise<HandledRequest> => {
  try {
    const reply = refusal ?? (await handler.run({ message, origin, signal: undefined, context: {} }))
    return { reply, body: serializeUnlessNotification(id, reply) }
  } catch (bug) {
    const reply = logBug(handler.log, origin, bug, message)
    return { reply, body: serializeUnlessNotification(id, reply) }
  }
}

/** A notification gets no response; a message without an id that is no valid request is no notification. */
const serializeUnlessNotification = (id: string | undefined, reply: Reply): ResponseBody | undefined =>
  id !== undefined
    ? serializeResponse(id, reply)
    : isFailure(reply) && reply.kind === 'invalid'
      ? serializeResponse('null', reply)
      : undefined

/** Runs all calls at once, started in their order. The responses are in the order of the calls, without notifications. */
const handleBatch = async (handler: MessageHandler, batch: readonly IncomingRequest[], origin: Origin): Promise<RpcResponse> => {
  const handled = await Promise.all(batch.map(request => handleRequest(handler, request, origin)))
  let remainingBytes = handler.limits.batchReply - '['.length
  const fitting = handled.map((each, position) => {
    if (each.body === undefined) return each
    const byteLength = each.body.byteLength + ','.length
    if (byteLength > remainingBytes) return replaceOversized(handler, each.reply, batch[position]!, origin)
    remainingBytes -= byteLength
    return each
  })
  const bodies = fitting.flatMap(({ body }) => body ?? [])
  const replies = fitting.map(({ reply }) => reply)
  return bodies.length === 0
    ? { id: 'null', body: undefined, status: 204, retryAfter: undefined, replies }
    : { id: 'null', body: serializeBatch(bodies), status: 200, retryAfter: undefined, replies }
}

/** The call succeeded, but its response does not fit the response to the batch: its charge is refunded. */
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
  log.error({ requestId, network, method: methodNameOf(message)?.slice(0, maxLoggedMethodChars), stack }, 'internal error')
  return refuse('internal', { data: { requestId } })
}

const maxLoggedMethodChars = 100
