import type { IncomingMessage, ServerResponse } from 'node:http'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Counter, Metrics } from '../services/metrics.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { bodyToLatin1 } from '../json-rpc/serialize-response.ts'
import type { RpcContext } from './rpc-context.ts'
import { corsHeaders, formatResponseHeaders, rawHeadersOf } from './response-headers.ts'
import { setSendTimeout, reserveForResponse, sendCompressed, sendChunks, shouldCompress } from './stream-response.ts'
import { sendSingleWrite } from '../runtime/single-write-response.ts'

const preflightHeaders = [...corsHeaders, 'Access-Control-Allow-Methods', 'POST, OPTIONS', 'Access-Control-Max-Age', '7200']

/** Answered before the key is looked at, as browsers send no credentials with it. */
export const sendPreflight = (req: IncomingMessage, res: ServerResponse): void => {
  const requestedHeaders = req.headers['access-control-request-headers'] ?? 'Content-Type'
  res.writeHead(204, [...preflightHeaders, 'Access-Control-Allow-Headers', requestedHeaders, 'Vary', 'Access-Control-Request-Headers'])
  res.end()
}

export const sendResponse = (rpcContext: RpcContext, res: ServerResponse, requestId: string, response: RpcResponse): void => {
  if (res.headersSent || res.destroyed) return
  if (response.body !== undefined && response.body.byteLength > maxSingleWriteBytes)
    return sendLongResponse(rpcContext, res, requestId, response)
  const closesConnection = rpcContext.activeRequests.isDraining
  const options = { requestId, closesConnection, isCompressed: false }
  const { status, body } = response
  const text = body === undefined ? '' : bodyToLatin1(body)
  const isSent =
    body !== undefined &&
    !closesConnection &&
    sendSingleWrite(res, { status, headerLines: formatResponseHeaders(response, options), date: rpcContext.httpDate(), body: text })
  if (!isSent) res.writeHead(status, [...rawHeadersOf(response, options)]).end(text, 'latin1')
  rpcContext.countResponse(status)
}

/** Looked up once per status, as this is done for each call. */
export const createResponseCounter = (metrics: Metrics): RpcContext['countResponse'] => {
  const counters = new Map<number, Counter>()
  const open = (status: number): Counter => {
    const counter = metrics.counter(metricDefinitions.httpResponses, { status: String(status) })
    counters.set(status, counter)
    return counter
  }
  return status => (counters.get(status) ?? open(status)).add()
}

/** Up to here head and body go out in one write, as one text. */
const maxSingleWriteBytes = 16_384

const sendLongResponse = (rpcContext: RpcContext, res: ServerResponse, requestId: string, response: RpcResponse): void => {
  const accepted = reserveForResponse(rpcContext, res, response)
  setSendTimeout(rpcContext, res, requestId)
  const isCompressed = shouldCompress(res, accepted)
  res.writeHead(accepted.status, [
    ...rawHeadersOf(accepted, { requestId, closesConnection: rpcContext.activeRequests.isDraining, isCompressed }),
  ])
  rpcContext.countResponse(accepted.status)
  if (accepted.body === undefined) res.end()
  else if (isCompressed) sendCompressed(res, accepted.body)
  else sendChunks(res, accepted.body)
}
