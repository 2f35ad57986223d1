import type { ServerResponse } from 'node:http'
import { Readable, pipeline } from 'node:stream'
import { createGzip } from 'node:zlib'
import { isFailure } from '../plugin/reply.ts'
import { overloaded } from '../services/memory-budget.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import { refundCharges } from './rpc-services.ts'
import type { RpcServices } from './rpc-services.ts'

/**
 * An answer that is long takes its place in the room of answers in flight until it has been read. Where there is none
 * left, the caller gets 503 and the charges go back.
 */
export const reserveForResponse = (
  services: Pick<RpcServices, 'memoryBudget' | 'hintGc' | 'log'>,
  res: ServerResponse,
  response: RpcResponse,
): RpcResponse => {
  const { memoryBudget, hintGc } = services
  const length = response.body?.byteLength ?? 0
  if (!memoryBudget.reserve(length)) {
    refundCharges(services, response.replies, 'unavailable')
    return failureResponse(overloaded(), response.id)
  }
  res.once('close', () => {
    memoryBudget.release(length)
    hintGc(length)
  })
  return response
}

/** Room must not be held by callers who read nothing. Who reads, however slowly, is waited for. */
export const setSendTimeout = (
  { log, sendTimeoutMs = 30_000 }: Pick<RpcServices, 'log' | 'sendTimeoutMs'>,
  res: ServerResponse,
  requestId: string,
): void => {
  res.setTimeout(sendTimeoutMs, () => {
    log.info({ event: 'slow-client', requestId }, 'client timed out reading the response; closing the connection')
    res.destroy()
  })
}

/** From here on compressing pays, where the caller asks for it: 6 MB of logs become 0.4 MB, in 190 ms beside the event loop. */
const minCompressedBytes = 131_072

/** Only for results: what is an error is short, and its status may matter to proxies that look inside. */
export const shouldCompress = (res: ServerResponse, { body, replies }: RpcResponse): boolean =>
  body !== undefined &&
  body.byteLength >= minCompressedBytes &&
  !replies.every(isFailure) &&
  acceptsGzip(res.req.headers['accept-encoding'])

const acceptsGzip = (header: string | string[] | undefined): boolean => /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(header ?? ''))

/**
 * Sends the pieces as they are, none of them copied. It ends when they have left: a server that stops takes a connection
 * whose answer has been ended for idle, and closes it, whether its caller has read the answer or not.
 */
export const sendChunks = (res: ServerResponse, { chunks }: ResponseBody): void => {
  const last = chunks.length - 1
  res.cork()
  for (const [i, piece] of chunks.entries()) res.write(piece, 'latin1', i < last ? undefined : () => void res.end())
  res.uncork()
}

/** Sends the pieces compressed, no faster than the caller reads. */
export const sendCompressed = (res: ServerResponse, { chunks }: ResponseBody): void => {
  const bytes = chunks.map(piece => (typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece))
  // A caller who leaves ends it; there is nobody to tell.
  pipeline(Readable.from(takeEach(bytes)), createGzip({ level: 1 }), res, () => undefined)
}

/** Keeps nothing of what it has given: V8 holds each Gzip, and all that leads to it, until a full collection. */
function* takeEach(bytes: Uint8Array[]): Generator<Uint8Array> {
  for (let piece = bytes.shift(); piece !== undefined; piece = bytes.shift()) yield piece
}
