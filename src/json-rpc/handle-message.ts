import { inspect } from 'node:util'
import { ChunkedBytes, toLatin1 } from '../json/chunked-bytes.ts'
import type { Json, Origin } from '../plugin/call.ts'
import type { Next } from '../plugin/plugin.ts'
import { PluginFault } from '../plugin/plugin-fault.ts'
import { copyReply } from '../plugin/copy-reply.ts'
import { isFailure, refuse } from '../plugin/reply.ts'
import type { Failure, Reply, RpcError } from '../plugin/reply.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { memoizeFrozen } from '../util/memoize.ts'
import { methodNameOf, stringifyJson } from '../util/json.ts'
import { BatchOrigin } from './batch-origin.ts'
import type { IncomingRequest, ParseMessage, RefusedBatch } from './parse-request.ts'
import { runBatch } from './run-batch.ts'
import type { BatchLimits, BatchMemory } from './run-batch.ts'

/** What messages to one network are handled with. */
export interface MessageHandler {
  readonly parse: ParseMessage
  /** The network's pipeline. */
  readonly run: Next
  readonly limits: BatchLimits
  readonly clock: Pick<Clock, 'monotonic'>
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
  /** The message was an array, and so is the body. */
  readonly isBatch?: true
}

/** Responds to one message, whatever it is; `memory` is that of the caller. Never throws and never rejects: a bug fails its own call and is logged. */
export const handleMessage = async (
  handler: MessageHandler,
  bytes: Uint8Array,
  origin: Origin,
  memory: BatchMemory,
): Promise<RpcResponse> => {
  try {
    const message = handler.parse(bytes)
    if ('error' in message) return failureResponse(message)
    if ('ids' in message) return refusedBatchResponse(message, bytes.length)
    if ('message' in message) return singleResponse(await handleRequest(handler, message, origin), message.id)
    return await handleBatch(handler, message, origin, { memory, batchBytes: bytes.length })
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
  id !== undefined ? serializeResponse(id, reply) : isInvalidRequest(reply) ? serializeResponse('null', reply) : undefined

/** The responses are in the order of the calls, without notifications. */
const handleBatch = async (
  handler: MessageHandler,
  batch: readonly IncomingRequest[],
  origin: Origin,
  { memory, batchBytes }: { readonly memory: BatchMemory; readonly batchBytes: number },
): Promise<RpcResponse> => {
  const batchOrigin = origin.push === undefined ? origin : new BatchOrigin(origin)
  const handled = await runBatch(batch, {
    ...handler,
    memory,
    signal: origin.signal,
    handle: request => handleRequest(handler, request, batchOrigin),
    replace: (request, refusal, replaced) => replaceReply(handler, { request, refusal, replaced }, origin),
  })
  const bodies = handled.flatMap(({ body }) => body ?? [])
  const replies = handled.map(({ reply }) => reply)
  return (replies.every(isInvalidRequest) && tooLongRefusal(replies[0], bodies, batchBytes)) || batchResponse(bodies, replies)
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
  const byteLength = errors.reduce((sum, body) => sum + body.byteLength + ','.length, 0)
  return refusal !== undefined && byteLength > 4 * batchBytes + maxRefusalBytes ? failureResponse(refusal) : undefined
}

const maxRefusalBytes = 4096

const isInvalidRequest = (reply: Reply): reply is Failure => isFailure(reply) && reply.kind === 'invalid'

interface Replacement {
  readonly request: IncomingRequest
  readonly refusal: Failure
  /** What the call has come to, if it has run. Its charge is kept if a node answered it and the batch is too large, else it is refunded. */
  readonly replaced: HandledRequest | undefined
}

const replaceReply = (handler: MessageHandler, { request, refusal, replaced }: Replacement, origin: Origin): HandledRequest => {
  let reply = refusal
  try {
    const { source, credits, quota, charge } = replaced?.reply ?? refusal
    const isPaid = refusal.kind === 'tooLarge' && (source === 'node' || source === 'partner')
    if (isPaid) reply = copyReply(refusal, { credits, quota })
    else if (refusal.kind !== 'node') charge?.refund(refusal.kind)
  } catch (bug) {
    reply = logBug(handler.log, origin, bug, request.message)
  }
  return { reply, body: serializeUnlessNotification(request.id, reply) }
}

const logBug = (log: Log, { requestId, network }: FailedOrigin, bug: unknown, message?: Json): Failure => {
  const stack = bug instanceof Error ? bug.stack : inspect(bug)
  const ofPlugin = bug instanceof PluginFault ? { plugin: bug.plugin, location: bug.location } : {}
  log.error({ requestId, network, method: methodNameOf(message)?.slice(0, maxLoggedMethodChars), ...ofPlugin, stack }, 'internal error')
  return refuse('internal', { data: { requestId } })
}

const maxLoggedMethodChars = 100

/** A message to send: chunks in order, so that long results are not copied. A string has one character per byte (latin1). */
export interface ResponseBody {
  readonly chunks: readonly (string | Uint8Array)[]
  /** Bytes of all chunks together. */
  readonly byteLength: number
}

/** The response to one call. `id` is the caller's id as it came; a result is sent as the node wrote it. */
export const serializeResponse = (id: string, reply: Reply): ResponseBody => {
  const isError = isFailure(reply)
  const value = isError ? serializeError(reply.error) : reply.result
  const prefix = `{"jsonrpc":"2.0","id":${id},"${isError ? 'error' : 'result'}":`
  if (value instanceof ChunkedBytes) return { chunks: [prefix, ...value.chunks, '}'], byteLength: prefix.length + value.byteLength + 1 }
  return { chunks: [prefix, value, '}'], byteLength: prefix.length + value.length + 1 }
}

/** As bytes where it is not ASCII. A refusal that is returned again and again is serialized once. */
const serializeError = memoizeFrozen(({ code, message, data }: RpcError) =>
  toAsciiOrBytes(stringifyJson(data === undefined ? { code, message } : { code, message, data })),
)

const toAsciiOrBytes = (text: string): string | Uint8Array => (/[^\x00-\x7f]/.test(text) ? Buffer.from(text) : text)

/** The response to a batch. Short chunks are copied together, as to send a chunk costs more than to copy it. */
export const serializeBatch = (bodies: readonly ResponseBody[]): ResponseBody => {
  const chunks: (string | Uint8Array)[] = []
  let byteLength = 1
  let text = '['
  for (const body of bodies) {
    for (const chunk of body.chunks) {
      if (typeof chunk === 'string') text += chunk
      else if (chunk.length <= maxCopiedBytes) text += toLatin1(chunk)
      else {
        chunks.push(text, chunk)
        text = ''
      }
    }
    text += ','
    byteLength += body.byteLength + 1
  }
  chunks.push(`${text.slice(0, -1)}]`)
  return { chunks, byteLength }
}

const maxCopiedBytes = 16_384

/** A short message as one string, one character per byte (latin1). */
export const bodyToLatin1 = ({ chunks }: ResponseBody): string => {
  let text = ''
  for (const chunk of chunks) text += typeof chunk === 'string' ? chunk : toLatin1(chunk)
  return text
}

/** The whole message in one buffer, copied. */
export const bodyToBuffer = ({ chunks, byteLength }: ResponseBody): Buffer => {
  const bytes = Buffer.allocUnsafe(byteLength)
  let at = 0
  for (const chunk of chunks) {
    if (typeof chunk === 'string') bytes.write(chunk, at, 'latin1')
    else bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}
