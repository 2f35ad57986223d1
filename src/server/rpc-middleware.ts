import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { handleMessage, internalErrorResponse, failureResponse } from '../json-rpc/handle-message.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { routeRequest } from './rpc-context.ts'
import type { RpcContext } from './rpc-context.ts'
import { lazyListener } from './lazy-listener.ts'
import { nextRequestId } from './request-origin.ts'
import { refundCharges } from './refund-charges.ts'
import { sendResponse } from './response.ts'

/**
 * The HTTP door: `POST /v3/<API_KEY>` on the network's own host (contract 4.1). Koa has everything that is not a call;
 * calls pass it by, as its context and its hooks cost 5 of the 24 microseconds that a bare server takes for one.
 */
export const createRequestListener = (rpcContext: RpcContext): RequestListener => {
  const nonRpcListener = lazyListener(async () => (await import('./koa-host.ts')).createNonRpcApp(rpcContext).callback())
  return (req, res) => void (req.method === 'POST' ? handleRpcRequest(rpcContext, req, res) : nonRpcListener(req, res))
}

const handleRpcRequest = async (rpcContext: RpcContext, req: IncomingMessage, res: ServerResponse): Promise<void> => {
  const routed = routeRequest(rpcContext, 'http', req)
  if ('error' in routed) return sendResponse(rpcContext, res, nextRequestId(), failureResponse(routed))
  const { endpoint, origin } = routed
  rpcContext.activeRequests.begin()
  // Comes once the answer is sent, or when the caller has gone before that. Only then is there work to end.
  res.once('close', () => {
    if (!res.writableFinished) origin.abort()
    rpcContext.activeRequests.end()
  })
  if (res.socket === null) closeResponseWithSocket(req.socket, res)
  let response: RpcResponse | undefined
  try {
    const admitted = endpoint.admit(origin)
    const refusal = (admitted instanceof Promise ? await admitted : admitted) ?? checkRequestHeaders(req)
    const body = refusal ?? (await readBody(req, rpcContext.limits.body))
    if (body === undefined) return
    response = 'error' in body ? failureResponse(body) : await handleMessage(endpoint.messageHandler, body, origin)
    sendResponse(rpcContext, res, origin.requestId, response)
  } catch (bug) {
    if (response !== undefined) refundCharges(rpcContext, response.replies, 'internal')
    sendResponse(rpcContext, res, origin.requestId, internalErrorResponse(rpcContext, origin, bug, response?.id))
  }
}

/** An answer that waits behind others of its connection (the caller pipelines) is not told by Node when that closes. */
const closeResponseWithSocket = (socket: Socket, res: ServerResponse): void => {
  const close = () => {
    res.destroy()
    res.emit('close')
  }
  socket.setMaxListeners(0).on('close', close)
  res.once('close', () => socket.off('close', close))
}

const jsonContentType = /^application\/json(?:-?rpc|request)?\s*(?:;|$)/i

const checkRequestHeaders = ({ headers }: IncomingMessage): Failure | undefined => {
  const encoding = headers['content-encoding'] ?? ''
  if (encoding !== '' && encoding.toLowerCase() !== 'identity')
    return refuse('contentType', { message: 'compressed requests are not accepted' })
  const type = headers['content-type']
  return type === 'application/json' || jsonContentType.test(type ?? '') ? undefined : refuse('contentType')
}

/**
 * The whole body; a failure as soon as it is known to be too long (Node then reads and drops the rest). Undefined when
 * the caller left before it was complete.
 */
const readBody = (req: IncomingMessage, maxBytes: number): Promise<Buffer | Failure | undefined> => {
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve(bodyTooLarge(maxBytes))
  return new Promise(resolve => {
    const chunks: Buffer[] = []
    let length = 0
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > maxBytes) {
        chunks.length = 0
        resolve(bodyTooLarge(maxBytes))
      } else chunks.push(chunk)
    })
    req.on('end', () => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)))
    req.on('close', () => resolve(undefined))
  })
}

const bodyTooLarge = (maxBytes: number): Failure => refuse('bodyTooLarge', { message: `the body is longer than ${maxBytes} bytes` })
