import { inspect } from 'node:util'
import { emptyContext } from '../plugin/call.ts'
import type { Json, Origin } from '../plugin/call.ts'
import type { DirectNext } from '../plugin/direct-stage.ts'
import type { RefusalKind } from '../plugin/error-table.ts'
import { PluginFault } from '../plugin/plugin-fault.ts'
import { copyReply, isFailure, refuse } from '../plugin/reply.ts'
import type { Failure, Refusal, Reply } from '../plugin/reply.ts'
import type { Clock } from '../services/clock.ts'
import type { AccessLog } from '../services/access-log.ts'
import type { Log } from '../services/log.ts'
import type { MaybePromise } from '../util/async.ts'
import { methodNameOf } from '../util/json.ts'
import { cutAndMaskKeys } from '../util/key-mask.ts'
import { BatchOrigin, runBatch } from './run-batch.ts'
import type { BatchLimits, BatchMemory, BatchScheduler } from './run-batch.ts'
import type { IncomingRequest, ParseMessage, RefusedBatch } from './parse-message.ts'
import { releaseBody, serializeBatch, serializeResponse } from './serialize-response.ts'
import type { ResponseBody } from './serialize-response.ts'

/** What messages to one network are handled with. */
export interface MessageHandler {
  readonly parse: ParseMessage
  /** The network's pipeline. */
  readonly run: DirectNext
  readonly limits: BatchLimits
  readonly clock: Pick<Clock, 'monotonic'>
  readonly log: Log
  readonly accessLog: Pick<AccessLog, 'isOn' | 'startTimer' | 'durationSince'>
}

/** One call of a message, as the access log needs it beside its reply. */
interface LoggedCall {
  readonly method: string | undefined
  /** Of a call of a batch, from its own start. */
  readonly durationMs: number | undefined
  /** The length of the message; a call of a batch has none. */
  readonly bytesReceived: number | undefined
  readonly bytesSent: number
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
  /** The message was an array, and so is the body. */
  readonly isBatch?: true
  /** The calls of the replies; only while calls are logged. */
  readonly loggedCalls?: readonly LoggedCall[] | undefined
}

/**
 * Responds to one message, whatever it is: at once where the pipeline replies at once. `memory` is that of the caller, whose batches take turns
 * with other callers. Never throws and never rejects: a bug fails its own call and is logged.
 */
export const handleMessage = (
  handler: MessageHandler,
  bytes: Uint8Array,
  origin: Origin,
  memory: BatchMemory,
  scheduler: BatchScheduler,
): MaybePromise<RpcResponse> => {
  try {
    const message = handler.parse(bytes)
    if ('error' in message) return failureResponse(message)
    if ('ids' in message) return refusedBatchResponse(message, bytes.length)
    const response =
      'message' in message
        ? handleSingle(handler, message, origin, bytes.length)
        : handleBatch(handler, message, origin, { memory, scheduler, batchBytes: bytes.length })
    return response instanceof Promise ? response.catch((bug: unknown) => internalErrorResponse(handler, origin, bug)) : response
  } catch (bug) {
    return internalErrorResponse(handler, origin, bug)
  }
}

const handleSingle = (
  handler: MessageHandler,
  request: IncomingRequest,
  origin: Origin,
  bytesReceived: number,
): MaybePromise<RpcResponse> => {
  const handled = handleRequest(handler, request, origin)
  const respond = (settled: HandledRequest): RpcResponse =>
    singleResponse(settled, request.id, handler.accessLog.isOn ? [toLoggedCall(request, settled, bytesReceived)] : undefined)
  return handled instanceof Promise ? handled.then(respond) : respond(handled)
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
  /** Of a call of a batch, while calls are logged. */
  readonly durationMs?: number | undefined
}

const toLoggedCall = ({ message }: IncomingRequest, { body, durationMs }: HandledRequest, bytesReceived?: number): LoggedCall => ({
  method: methodNameOf(message),
  durationMs,
  bytesReceived,
  bytesSent: body?.byteLength ?? 0,
})

const singleResponse = ({ reply, body }: HandledRequest, id = 'null', loggedCalls?: readonly LoggedCall[]): RpcResponse =>
  body === undefined
    ? { id, body, status: 204, retryAfter: undefined, replies: [reply], loggedCalls }
    : isFailure(reply)
      ? { id, body, status: reply.status, retryAfter: reply.retryAfter, replies: [reply], loggedCalls }
      : { id, body, status: 200, retryAfter: undefined, replies: [reply], loggedCalls }

/** Runs the pipeline at once: nothing is awaited before. */
const handleRequest = (handler: MessageHandler, request: IncomingRequest, origin: Origin): MaybePromise<HandledRequest> => {
  const { message, refusal } = request
  try {
    const reply =
      refusal ?? handler.run({ message, origin, signal: undefined, startedAtMs: handler.clock.monotonic(), context: emptyContext })
    return reply instanceof Promise ? handleLater(handler, request, origin, reply) : toHandled(handler, request, origin, reply)
  } catch (bug) {
    return toHandled(handler, request, origin, logBug(handler.log, origin, bug, message))
  }
}

const handleLater = async (
  handler: MessageHandler,
  request: IncomingRequest,
  origin: Origin,
  pendingReply: Promise<Reply>,
): Promise<HandledRequest> => {
  try {
    return toHandled(handler, request, origin, await pendingReply)
  } catch (bug) {
    return toHandled(handler, request, origin, logBug(handler.log, origin, bug, request.message))
  }
}

/** A reply that cannot be serialized because of a bug is replaced by an internal error. */
const toHandled = (handler: MessageHandler, request: IncomingRequest, origin: Origin, reply: Reply): HandledRequest => {
  try {
    const body = serializeUnlessNotification(request.id, reply)
    if (body !== undefined || reply.onSettled === undefined) return { reply, body }
    settleReplies(handler, [reply], false)
    return { reply: copyReply(reply, { onSettled: undefined }), body }
  } catch (bug) {
    const refusal = logBug(handler.log, origin, bug, request.message)
    return replaceReply(handler, { request, refusal, replaced: { reply, body: undefined } }, origin)
  }
}

/** Does anybody wait for the outcome of these replies? Of few calls. */
export const needsSettling = (replies: readonly Reply[]): boolean => replies.some(({ onSettled }) => onSettled !== undefined)

/** The response has been delivered, or will not be; see `onSettled` of a reply. Never throws. */
export const settleReplies = ({ log }: Pick<MessageHandler, 'log'>, replies: readonly Reply[], isDelivered: boolean): void => {
  for (const { onSettled } of replies) {
    try {
      onSettled?.(isDelivered)
    } catch (bug) {
      log.error({ err: bug }, 'onSettled() of a reply failed because of a bug')
    }
  }
}

/** The response to these calls cannot be delivered. `outcome` is what the caller gets instead. Never throws. */
export const refundReplies = (services: Pick<MessageHandler, 'log'>, replies: readonly Reply[], outcome: RefusalKind): void => {
  for (const { charge } of replies) {
    try {
      charge?.refund(outcome)
    } catch (bug) {
      services.log.error({ err: bug }, 'refund failed because of a bug')
    }
  }
  settleReplies(services, replies, false)
}

/** A notification gets no response; a message without an id that is no valid request is no notification. */
const serializeUnlessNotification = (id: string | undefined, reply: Reply): ResponseBody | undefined =>
  id !== undefined ? serializeResponse(id, reply) : isInvalidRequest(reply) ? serializeResponse('null', reply) : undefined

/**
 * The responses are in the order of the calls, without notifications. A bug of the batch itself makes one internal error of it: its calls are
 * refunded, as none of their responses is delivered.
 */
const handleBatch = async (
  handler: MessageHandler,
  batch: readonly IncomingRequest[],
  origin: Origin,
  { memory, scheduler, batchBytes }: { readonly memory: BatchMemory; readonly scheduler: BatchScheduler; readonly batchBytes: number },
): Promise<RpcResponse> => {
  const batchOrigin = origin.push === undefined ? origin : new BatchOrigin(origin)
  const handled: (HandledRequest | undefined)[] = []
  try {
    await runBatch(batch, handled, {
      ...handler,
      memory,
      scheduler,
      signal: origin.signal,
      handle: request =>
        handler.accessLog.isOn ? timeRequest(handler, request, batchOrigin) : handleRequest(handler, request, batchOrigin),
      replace: (request, refusal, replaced) => replaceReply(handler, { request, refusal, replaced }, origin),
    })
    return handledBatchResponse(handler, batch, handled as readonly HandledRequest[], batchBytes) // all of them, as there was no bug
  } catch (bug) {
    const refusal = logBug(handler.log, origin, bug)
    for (const [i, replaced] of handled.entries())
      if (replaced !== undefined) replaceReply(handler, { request: batch[i]!, refusal, replaced }, origin)
    return failureResponse(refusal)
  }
}

const handledBatchResponse = (
  { accessLog }: MessageHandler,
  batch: readonly IncomingRequest[],
  handled: readonly HandledRequest[],
  batchBytes: number,
): RpcResponse => {
  const bodies: ResponseBody[] = []
  const replies: Reply[] = []
  for (const { reply, body } of handled) {
    replies.push(reply)
    if (body !== undefined) bodies.push(body)
  }
  const response = (replies.every(isInvalidRequest) && tooLongRefusal(replies[0], bodies, batchBytes)) || batchResponse(bodies, replies)
  if (!accessLog.isOn || response.replies !== replies) return response
  return { ...response, loggedCalls: handled.map((each, i) => toLoggedCall(batch[i]!, each)) }
}

const timeRequest = async (handler: MessageHandler, request: IncomingRequest, origin: Origin): Promise<HandledRequest> => {
  const startedAtMs = handler.accessLog.startTimer()
  const handled = await handleRequest(handler, request, origin)
  return { ...handled, durationMs: handler.accessLog.durationSince(startedAtMs) }
}

const batchResponse = (bodies: readonly ResponseBody[], replies: readonly Reply[]): RpcResponse =>
  bodies.length === 0
    ? { id: 'null', body: undefined, status: 204, retryAfter: undefined, replies, isBatch: true }
    : { id: 'null', body: serializeBatch(bodies), status: 200, retryAfter: undefined, replies, isBatch: true }

const refusedBatchResponse = ({ refusal, ids }: RefusedBatch, batchBytes: number): RpcResponse => {
  const bodies = ids.map(id => serializeResponse(id, refusal))
  return tooLongRefusal(refusal, bodies, batchBytes) ?? batchResponse(bodies, [refusal])
}

/** One error for all, if the errors are longer than four times the batch plus 4 KiB: its members are too short to be calls. */
const tooLongRefusal = (refusal: Failure | undefined, errors: readonly ResponseBody[], batchBytes: number): RpcResponse | undefined => {
  // After each error comes a comma, or the end of the array.
  const byteLength = errors.reduce((sum, body) => sum + body.byteLength + ','.length, '['.length)
  return refusal !== undefined && byteLength > 4 * batchBytes + maxRefusalBytes ? failureResponse(refusal) : undefined
}

const maxRefusalBytes = 4096

const isInvalidRequest = (reply: Reply): reply is Failure => isFailure(reply) && reply.kind === 'invalid'

interface Replacement {
  readonly request: IncomingRequest
  readonly refusal: Refusal
  /** What the call has come to, if it has run. Its charge is kept if a node answered it and the batch is too large, else it is refunded. */
  readonly replaced: HandledRequest | undefined
}

const replaceReply = (handler: MessageHandler, { request, refusal, replaced }: Replacement, origin: Origin): HandledRequest => {
  let reply = refusal
  releaseBody(replaced?.body)
  settleReplies(handler, [replaced?.reply ?? refusal], false)
  try {
    const { source, credits, quota, charge } = replaced?.reply ?? refusal
    const isPaid = refusal.kind === 'tooLarge' && (source === 'node' || source === 'partner')
    if (isPaid) {
      charge?.keep(refusal.kind)
      reply = copyReply(refusal, { credits, quota })
    } else charge?.refund(refusal.kind)
  } catch (bug) {
    reply = logBug(handler.log, origin, bug, request.message)
  }
  return { reply, body: serializeUnlessNotification(request.id, reply), durationMs: replaced?.durationMs }
}

const logBug = (log: Log, { requestId, network }: FailedOrigin, bug: unknown, message?: Json): Refusal => {
  const stack = bug instanceof Error ? bug.stack : inspect(bug)
  const ofPlugin = bug instanceof PluginFault ? { plugin: bug.plugin, location: bug.location } : {}
  const method = cutAndMaskKeys(methodNameOf(message) ?? '', maxLoggedMethodChars) || undefined
  log.error({ requestId, network, method, ...ofPlugin, stack }, 'internal error')
  return refuse('internal', { data: { requestId } })
}

const maxLoggedMethodChars = 100
