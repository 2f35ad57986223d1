import { STATUS_CODES, ServerResponse } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { isFailure } from '../plugin/reply.ts'
import type { CreditQuota, RateQuota, Reply } from '../plugin/reply.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { bodyToLatin1 } from '../json-rpc/serialize-response.ts'
import type { Clock } from '../services/clock.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import { drainRequest, isReceivingBody, isTooLongToDrain } from './request-body.ts'
import { logAborted, recordResponse } from './response-records.ts'
import type { ResponseOrigin } from './response-records.ts'
import type { RpcServices } from './rpc-services.ts'
import { sendCompressed, shouldCompress } from './response-compression.ts'
import { reserveForResponse, sendChunks, setSendTimeout } from './stream-response.ts'

/** Names and values in turn. */
type RawHeaders = readonly string[]

/** On every response, errors included: without them a browser shows a page nothing of a response. */
const corsHeaders: RawHeaders = [
  'Access-Control-Allow-Origin',
  '*',
  'Access-Control-Expose-Headers',
  'X-Request-Id, X-Tollgate-Credits, X-Tollgate-Cache, X-Tollgate-Upstream, Server-Timing, RateLimit-Policy, RateLimit, Retry-After',
]

const preflightHeaders: RawHeaders = [...corsHeaders, 'Access-Control-Allow-Methods', 'POST, OPTIONS', 'Access-Control-Max-Age', '7200']

/** Responds to a CORS preflight. */
export const sendPreflight = (req: IncomingMessage, res: ServerResponse): void => {
  const requestedHeaders = req.headers['access-control-request-headers'] ?? 'Content-Type'
  res.writeHead(204, [...preflightHeaders, 'Access-Control-Allow-Headers', requestedHeaders, 'Vary', 'Access-Control-Request-Headers'])
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
  if (res.headersSent) return
  if (res.destroyed) return logAborted(services, origin, response)
  if (response.body !== undefined && response.body.byteLength > maxSingleWriteBytes)
    return sendLongResponse(services, res, origin, response, memory)
  const closesConnection = services.activeRequests.isDraining || (!res.req.complete && isTooLongToDrain(res.req))
  const options = { services, origin, closesConnection, isCompressed: false }
  const { status, body } = response
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
  if (!isSent) endResponse(res.writeHead(status, [...rawHeadersOf(response, options)]), text)
  recordResponse(services, origin, response, status)
}

const sendLongResponse = (
  services: RpcServices,
  res: ServerResponse,
  origin: ResponseOrigin,
  response: RpcResponse,
  memory: CallerMemory | undefined,
): void => {
  const accepted = reserveForResponse(services, res, response, memory)
  setSendTimeout(services, res, origin.requestId)
  const isCompressed = shouldCompress(res, accepted)
  const closesConnection = services.activeRequests.isDraining
  res.writeHead(accepted.status, [...rawHeadersOf(accepted, { services, origin, closesConnection, isCompressed })])
  recordResponse(services, origin, accepted, accepted.status)
  if (accepted.body === undefined) res.end()
  else if (isCompressed) sendCompressed(res, accepted.body)
  else sendChunks(res, accepted.body)
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

/**
 * Sends a short response as text to a connection that Node's HTTP server no longer serves. The connection ends with it, even
 * if the caller goes on sending.
 */
export const sendRawResponse = (
  services: Pick<RpcServices, 'countResponse' | 'accessLog'>,
  stream: Duplex,
  origin: ResponseOrigin,
  response: RpcResponse,
  extraHeaders: RawHeaders = [],
): void => {
  const lines = formatResponseHeaders(response, { origin, closesConnection: true, isCompressed: false }) + formatHeaderLines(extraHeaders)
  const body = response.body === undefined ? '' : bodyToLatin1(response.body)
  stream.on('error', destroyStream).once('finish', destroyStream)
  stream.end(`HTTP/1.1 ${response.status} ${STATUS_CODES[response.status]}\r\n${lines}\r\n${body}`, 'latin1')
  recordResponse(services, origin, response, response.status)
}

function destroyStream(this: Duplex): void {
  this.destroy()
}

interface ResponseOptions {
  readonly origin: ResponseOrigin
  /** The connection ends with it. */
  readonly closesConnection: boolean
  readonly isCompressed: boolean
  /** Absent where the response has no call: it names neither upstream nor timing. */
  readonly services?: Pick<RpcServices, 'headers' | 'clock'>
}

/** The headers of a response, a line each. */
const formatResponseHeaders = (response: RpcResponse, options: ResponseOptions): string => {
  let lines = `${rpcHeaderLines}X-Request-Id: ${options.origin.requestId}\r\n${formatContentHeaders(response, options)}${formatReplyHeaders(response, options)}`
  if (response.retryAfter !== undefined) lines += `Retry-After: ${response.retryAfter}\r\n`
  if (response.status === 405) lines += `Allow: ${allowedMethods(response.replies)}\r\n`
  if (response.status === 426) lines += upgradeHeaderLines
  if (options.closesConnection) lines += 'Connection: close\r\n'
  return lines
}

/** The headers of a response as writeHead() takes them. */
const rawHeadersOf = (response: RpcResponse, options: ResponseOptions): RawHeaders =>
  formatResponseHeaders(response, options)
    .split('\r\n')
    .slice(0, -1)
    .flatMap(line => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 2)]
    })

const formatHeaderLines = (headers: RawHeaders): string => {
  let lines = ''
  for (let i = 0; i < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`
  return lines
}

/** The protocol to upgrade to (RFC 9110, 15.5.22). */
const upgradeHeaderLines = formatHeaderLines(['Upgrade', 'websocket', 'Connection', 'Upgrade'])

const rpcHeaderLines = formatHeaderLines([...corsHeaders, 'Cache-Control', 'no-store'])

const formatContentHeaders = ({ body }: RpcResponse, { isCompressed }: ResponseOptions): string =>
  body === undefined
    ? ''
    : isCompressed
      ? 'Content-Type: application/json\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n'
      : `Content-Type: application/json\r\nContent-Length: ${body.byteLength}\r\n`

const allowedMethods = ([refusal]: readonly Reply[]): string =>
  refusal !== undefined && isFailure(refusal) && refusal.allow !== undefined ? refusal.allow : 'POST, OPTIONS'

/** The credits of all calls together, also of a batch whose calls were all refused; cache and upstream only where there is one call. */
const formatReplyHeaders = ({ replies, isBatch }: RpcResponse, { services, origin: { receivedAtMs } }: ResponseOptions): string => {
  let credits = isBatch === true ? 0 : undefined
  let quota: CreditQuota | undefined
  let rateQuota: RateQuota | undefined
  for (const reply of replies) {
    if (reply.credits !== undefined) credits = (credits ?? 0) + reply.credits
    quota = reply.quota ?? quota
    rateQuota = reply.rateQuota ?? rateQuota
  }
  let lines = credits === undefined ? '' : `X-Tollgate-Credits: ${credits}\r\n`
  if (quota !== undefined || rateQuota !== undefined) lines += formatRateLimitHeaders(quota, rateQuota)
  const only = replies.length === 1 ? replies[0] : undefined
  if (only?.cache !== undefined) lines += `X-Tollgate-Cache: ${only.cache}\r\n`
  if (only?.upstream !== undefined && services?.headers.upstream === true) lines += `X-Tollgate-Upstream: ${only.upstream}\r\n`
  if (services?.headers.serverTiming === true && receivedAtMs !== undefined)
    lines += formatServerTiming(services.clock.monotonic() - receivedAtMs, only)
  return lines
}

/** W3C Server Timing: durations in ms. A batch has its total alone. */
const formatServerTiming = (totalMs: number, only: Reply | undefined): string => {
  let metrics = `total;dur=${roundToTenths(totalMs)}`
  if (only?.upstreamRequest !== undefined) metrics += `, upstream;dur=${roundToTenths(only.upstreamRequest.durationMs)}`
  if (only?.cache !== undefined) metrics += `, cache;desc=${only.cache}`
  return `Server-Timing: ${metrics}\r\nTiming-Allow-Origin: *\r\n`
}

const roundToTenths = (ms: number): number => Math.round(ms * 10) / 10

/** draft-ietf-httpapi-ratelimit-headers-10; all calls of one request draw from the same quotas. */
const formatRateLimitHeaders = (credits: CreditQuota | undefined, rate: RateQuota | undefined): string => {
  if (rate === undefined)
    return credits === undefined ? '' : `RateLimit-Policy: ${creditPolicy(credits)}\r\nRateLimit: ${creditState(credits)}\r\n`
  const { name, limit, windowMs, remaining, resetsInMs } = rate
  const policy = `"${name}-per-second";q=${limit};w=${Math.max(1, Math.ceil(windowMs / 1000))}`
  const state = `"${name}-per-second";r=${remaining};t=${Math.ceil(resetsInMs / 1000)}`
  if (credits === undefined) return `RateLimit-Policy: ${policy}\r\nRateLimit: ${state}\r\n`
  return `RateLimit-Policy: ${creditPolicy(credits)}, ${policy}\r\nRateLimit: ${creditState(credits)}, ${state}\r\n`
}

const creditPolicy = ({ limit }: CreditQuota): string => `"daily-credits";q=${limit};w=86400`

const creditState = ({ remaining, resetsInMs }: CreditQuota): string => `"daily-credits";r=${remaining};t=${Math.ceil(resetsInMs / 1000)}`

/** The current time as the Date header writes it; formatted once a second. */
export const openHttpDate = (clock: Clock): RpcServices['httpDate'] => {
  let second = NaN
  let formatted = ''
  return () => {
    const now = Math.floor(clock.now() / 1000)
    if (now !== second) formatted = new Date(now * 1000).toUTCString()
    second = now
    return formatted
  }
}
