import { STATUS_CODES, ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { needsSettling, settleReplies } from '../json-rpc/handle-message.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { bodyToLatin1, releaseBody } from '../json-rpc/serialize-response.ts'
import { systemClock } from '../services/clock.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Counter, Metrics } from '../services/metrics.ts'
import { getOrCreate } from '../util/memoize.ts'
import { closesToDrain } from './caller-connection.ts'
import { closesAfterRefusal, drainRequest, isReceivingBody } from './request-body.ts'
import { corsHeaders, formatHeaderLines, formatResponseHeaders, rawHeadersOf } from './response-headers.ts'
import type { RawHeaders, ResponseOrigin } from './response-headers.ts'
import type { RpcServices } from './rpc-services.ts'
import { sendLongResponse, settleOnClose, settleResponse } from './stream-response.ts'

const preflightHeaders: RawHeaders = [...corsHeaders, 'Access-Control-Allow-Methods', 'POST, OPTIONS', 'Access-Control-Max-Age', '7200']

/** Responds to a CORS preflight. */
export const sendPreflight = (services: Pick<RpcServices, 'activeRequests'>, req: IncomingMessage, res: ServerResponse): void => {
  const requestedHeaders = req.headers['access-control-request-headers'] ?? 'Content-Type'
  const headers = [...preflightHeaders, 'Access-Control-Allow-Headers', requestedHeaders, 'Vary', 'Access-Control-Request-Headers']
  if (closesToDrain(services, res) || closesAfterRefusal(req)) headers.push('Connection', 'close')
  res.writeHead(204, headers)
  endResponse(res, '')
}

/** Not before the request ends: from then on its connection takes the next request. */
const endResponse = (res: ServerResponse, text: string): void => {
  if (!isReceivingBody(res.req)) return void res.end(text, 'latin1')
  if (text === '') res.flushHeaders()
  else res.write(text, 'latin1')
  const drain = (): void => drainRequest(res.req, () => res.end())
  if (res.socket === null)
    res.once('socket', drain) // it waits behind other responses of its connection
  else drain()
}

/** Up to here head and body go out in one write, as one text. */
const maxSingleWriteBytes = 16_384

/**
 * Sends the response; does nothing when one has been sent already or the caller has left. A long response reserves its bytes in
 * `memory`, which is released when the response has been sent.
 */
export const sendResponse = (
  services: RpcServices,
  res: ServerResponse,
  origin: ResponseOrigin,
  response: RpcResponse,
  memory?: CallerMemory,
): void => {
  if (res instanceof UpgradeResponse) sendRawResponse(services, res.stream, origin, response)
  // A body that has arrived with its headers is complete in the next turn: a refusal then drains nothing, and takes two thirds of the CPU.
  else if (isReceivingBody(res.req)) setImmediate(sendHttpResponse, services, res, origin, response, memory)
  else sendHttpResponse(services, res, origin, response, memory)
}

const sendHttpResponse = (
  services: RpcServices,
  res: ServerResponse,
  origin: ResponseOrigin,
  response: RpcResponse,
  memory: CallerMemory | undefined,
): void => {
  if (res.headersSent) return settleReplies(services, response.replies, false)
  if (res.destroyed) {
    releaseBody(response.body)
    settleResponse(services, response.replies, false)
    return logAborted(services, origin, response)
  }
  if (response.body !== undefined && response.body.byteLength > maxSingleWriteBytes)
    return recordResponse(services, origin, sendLongResponse(services, res, origin, response, memory))
  const { status, body, replies } = response
  // A short response behind others of its connection waits until these have been read; else the system takes it at once.
  if (needsSettling(replies) || res.socket?.writableLength !== 0) settleOnClose(services, res, replies)
  // A plugin may refuse with 200 before the body has arrived.
  const closesConnection = closesToDrain(services, res) || ((status !== 200 || !res.req.complete) && closesAfterRefusal(res.req))
  const options = { services, origin, closesConnection, isCompressed: false }
  const text = body === undefined ? '' : bodyToLatin1(body)
  const isSent =
    body !== undefined &&
    !closesConnection &&
    res.req.complete &&
    services.sendSingleWrite(res, {
      status,
      headerLines: formatResponseHeaders(response, options),
      date: services.httpDate(),
      body: text,
    })
  if (!isSent) endResponse(res.writeHead(status, rawHeadersOf(response, options)), text)
  recordResponse(services, origin, response)
}

/** The response to an upgrade or to CONNECT: Node's HTTP server no longer serves the connection of such a request. */
export class UpgradeResponse extends ServerResponse {
  /** The connection. */
  readonly stream: Duplex
  /** What has arrived behind the request. */
  readonly head: Buffer

  constructor(request: IncomingMessage, stream: Duplex, head: Buffer) {
    super(request)
    this.stream = stream
    this.head = head
  }
}

/** What dates, counts and logs a raw response. */
export type RawResponseServices = RecordingServices & Pick<RpcServices, 'httpDate'>

/**
 * Sends a short response as text to a connection that Node's HTTP server no longer serves. The connection ends with it, even
 * if the caller goes on sending. What the caller has sent is read until then.
 */
export const sendRawResponse = (
  services: RawResponseServices,
  stream: Duplex,
  origin: ResponseOrigin,
  response: RpcResponse,
  extraHeaders: RawHeaders = [],
): void => {
  const lines =
    formatResponseHeaders(response, { origin, closesConnection: true, isCompressed: false }) +
    formatHeaderLines([...extraHeaders, 'Date', services.httpDate()])
  const body = response.body === undefined ? '' : bodyToLatin1(response.body)
  stream.on('error', destroyStream).once('finish', lingerStream)
  stream.end(`HTTP/1.1 ${response.status} ${STATUS_CODES[response.status]}\r\n${lines}\r\n${body}`, 'latin1')
  recordResponse(services, origin, response)
}

export function destroyStream(this: Duplex): void {
  this.destroy()
}

const lingerTimeoutMs = 1_000

/**
 * Closes the connection once the caller has closed its side. Where a connection is closed with bytes that nobody has read, the system drops what it
 * has not sent yet: the end of the responses (RFC 9112, 9.6).
 */
function lingerStream(this: Duplex): void {
  if (this.readableEnded) return void this.destroy()
  const timer = systemClock.after(lingerTimeoutMs, () => void this.destroy())
  this.once('end', destroyStream)
    .once('close', () => timer.cancel())
    .resume()
}

/** Each status is looked up in the registry once, as responses are counted for each call. */
export const createResponseCounter = (metrics: Metrics): RpcServices['countResponse'] => {
  const counters = new Map<number, Counter>()
  const open = (status: number): Counter => metrics.counter(metricDefinitions.httpResponses, { status: String(status) })
  return status => getOrCreate(counters, status, open).add()
}

/** What counts and logs responses. */
type RecordingServices = Pick<RpcServices, 'countResponse' | 'accessLog'>

const recordResponse = (services: RecordingServices, origin: ResponseOrigin, response: RpcResponse): void => {
  services.countResponse(response.status)
  if (services.accessLog.isOn) logResponse(services, origin, response, response.status)
}

/** A caller that left before the response, with the status that nginx logs for it; `response` is what it would have got. */
export const logAborted = (services: Pick<RpcServices, 'accessLog'>, origin: ResponseOrigin, response: RpcResponse | undefined): void =>
  logResponse(services, origin, response, 499)

const noCall = { method: undefined, durationMs: undefined, bytesReceived: undefined }

/**
 * A line for each call of the response; one line for a response without calls, or where there was no response. A message over
 * WebSocket has no status.
 */
export const logResponse = (
  { accessLog }: Pick<RpcServices, 'accessLog'>,
  { requestId, network, transport, receivedAtMs, state }: ResponseOrigin,
  response: RpcResponse | undefined,
  status?: number,
): void => {
  const accountId = state?.accountId
  const totalMs = accessLog.durationSince(receivedAtMs)
  const calls = response?.loggedCalls ?? [{ ...noCall, bytesSent: response?.body?.byteLength }]
  const batchSize = response?.isBatch === true ? calls.length : undefined
  for (let i = 0; i < calls.length; i++) {
    const { method, durationMs = totalMs, bytesReceived, bytesSent } = calls[i]!
    const reply = response?.replies[i]
    accessLog.record({ requestId, network, transport, status, method, reply, durationMs, bytesReceived, bytesSent, batchSize, accountId })
  }
}
