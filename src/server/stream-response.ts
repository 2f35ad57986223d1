import type { ServerResponse } from 'node:http'
import type { Reply } from '../plugin/reply.ts'
import { overloaded } from '../services/memory-budget.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import { failureResponse, refundReplies, settleReplies } from '../json-rpc/handle-message.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { releaseBody } from '../json-rpc/serialize-response.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import { sentBytesOf } from '../runtime/http-internals.ts'
import { closesToDrain } from './caller-connection.ts'
import { watchReadSpeed } from './read-speed.ts'
import { rawHeadersOf } from './response-headers.ts'
import type { ResponseOrigin } from './response-headers.ts'
import type { RpcServices } from './rpc-services.ts'

/** Sends a response that is too long for one write, compressed or in parts. Returns it, or the refusal that is sent in its place. */
export const sendLongResponse = (
  services: RpcServices,
  res: ServerResponse,
  origin: ResponseOrigin,
  response: RpcResponse,
  memory: CallerMemory | undefined,
): RpcResponse => {
  const accepted = reserveForResponse(services, response, memory)
  const { status, body, replies } = accepted
  setSendTimeout(services, res, origin.requestId)
  settleOnClose(services, res, replies)
  const isCompressed = services.compressor.shouldCompress(res, accepted, memory)
  const closesConnection = closesToDrain(services, res)
  res.writeHead(status, rawHeadersOf(accepted, { origin, closesConnection, isCompressed }))
  if (body === undefined) res.end()
  else if (isCompressed) {
    const { byteLength } = body
    res.once('close', () => services.hintGc(byteLength))
    void services.compressor.send(res, body)
  } else sendChunks(res, body, services)
  return accepted
}

/**
 * Reserves the bytes of a long response, until it has been sent. When the memory budget has no room for them, the response
 * becomes a 503 and the charges are refunded.
 */
const reserveForResponse = (services: Pick<RpcServices, 'log'>, response: RpcResponse, memory: CallerMemory | undefined): RpcResponse => {
  const length = response.body?.byteLength ?? 0
  if (memory?.reserve(length) === false) {
    releaseBody(response.body)
    refundReplies(services, response.replies, 'unavailable')
    return failureResponse(overloaded(), response.id)
  }
  return response
}

/** The system has taken the whole response, or never will. A response that the gateway gives up costs nothing. */
export const settleResponse = (
  { activeRequests, log }: Pick<RpcServices, 'activeRequests' | 'log'>,
  replies: readonly Reply[],
  isTaken: boolean,
): void => {
  if (!isTaken && activeRequests.isGivenUp) refundReplies({ log }, replies, 'unavailable')
  else settleReplies({ log }, replies, isTaken)
}

/** Before the response is sent: its replies are settled once the system has taken all of it, or its connection is closed. */
export const settleOnClose = (
  services: Pick<RpcServices, 'activeRequests' | 'log'>,
  res: ServerResponse,
  replies: readonly Reply[],
): void => {
  let isTaken = false
  // Node also calls back what it could not write to a connection that has been closed.
  res.once('finish', () => void (isTaken = !res.req.socket.destroyed)).once('close', () => settleResponse(services, replies, isTaken))
}

/**
 * Ends the connection of a caller that reads less than the least speed within the send timeout, so that its bytes are released: a caller
 * that reads now and then a few bytes would hold them for hours. A response that waits behind others of its connection is not timed.
 */
export const setSendTimeout = (
  { clock, log, sendTimeoutMs = 30_000 }: Pick<RpcServices, 'clock' | 'log' | 'sendTimeoutMs'>,
  res: ServerResponse,
  requestId: string,
): void => {
  const timer = watchReadSpeed({
    clock,
    sendTimeoutMs,
    sentBytes: () => (res.socket === null ? undefined : sentBytesOf(res.socket)),
    onSlow: () => {
      log.info({ event: 'slow-client', requestId }, 'client timed out reading the response; closing the connection')
      res.destroy()
    },
  })
  res.once('close', () => timer.cancel())
}

/** Bytes of one response that one turn of the event loop sends. */
export const maxSentBytesPerTurn = 1_048_576

/**
 * Sends the chunks without copying them, a part in each turn of the event loop: the system takes 4 MB in one write, and to encrypt 6 MB
 * takes as long as all else. The response ends only when all chunks have been flushed: a server that stops closes connections whose
 * response has ended, even if the caller has not read it yet.
 */
export const sendChunks = (res: ServerResponse, body: ResponseBody, { hintGc }: Pick<RpcServices, 'hintGc'>): void => {
  // Only then does the system read none of the chunks: of a caller that leaves, a chunk may have been written in part.
  res.once('close', () => hintGc(body.byteLength - releaseBody(body)))
  const parts = splitByTurn(body.chunks)
  const sendPart = (): void => {
    if (res.destroyed) return
    const part = parts.shift() ?? []
    const onFlushed = (): void => void (parts.length > 0 ? setImmediate(sendPart) : res.end())
    res.cork()
    for (const [i, chunk] of part.entries()) res.write(chunk, 'latin1', i < part.length - 1 ? undefined : onFlushed)
    res.uncork()
  }
  sendPart()
}

type Chunk = ResponseBody['chunks'][number]

/** Each part has at most the bytes of one turn. */
const splitByTurn = (chunks: readonly Chunk[]): (readonly Chunk[])[] => {
  let part: Chunk[] = []
  const parts = [part]
  let freeBytes = maxSentBytesPerTurn
  for (const chunk of chunks) {
    for (let start = 0; start < chunk.length; ) {
      if (freeBytes === 0) {
        parts.push((part = []))
        freeBytes = maxSentBytesPerTurn
      }
      const end = Math.min(chunk.length, start + freeBytes)
      part.push(typeof chunk === 'string' ? chunk.slice(start, end) : chunk.subarray(start, end))
      freeBytes -= end - start
      start = end
    }
  }
  return parts
}
