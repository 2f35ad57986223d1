import { isFailure } from '../plugin/reply.ts'
import type { CreditQuota, RateQuota, Reply } from '../plugin/reply.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import type { Clock } from '../services/clock.ts'
import type { RequestOrigin } from './request-origin.ts'
import type { RpcServices } from './rpc-services.ts'

/** Names and values in turn. */
export type RawHeaders = readonly string[]

/** Those that pages of other origins may read, beside the few that browsers always show. */
const exposedHeaders = [
  'X-Request-Id',
  'X-Tollgate-Credits',
  'X-Tollgate-Cache',
  'X-Tollgate-Upstream',
  'X-Tollgate-Verified',
  'RateLimit-Policy',
  'RateLimit',
  'Retry-After',
]

/** On every response, errors included: without them a browser shows a page nothing of a response. */
export const corsHeaders: RawHeaders = ['Access-Control-Allow-Origin', '*', 'Access-Control-Expose-Headers', exposedHeaders.join(', ')]

/** A request as its response names it, and as it is logged; one that was not routed has its id alone. */
export type ResponseOrigin = Pick<RequestOrigin, 'requestId'> &
  Partial<Pick<RequestOrigin, 'network' | 'transport' | 'receivedAtMs' | 'state'>>

interface ResponseOptions {
  readonly origin: ResponseOrigin
  /** The connection ends with it. */
  readonly closesConnection: boolean
  readonly isCompressed: boolean
}

/** The headers of a response, a line each. */
export const formatResponseHeaders = (response: RpcResponse, options: ResponseOptions): string => {
  let lines = `${rpcHeaderLines}X-Request-Id: ${options.origin.requestId}\r\n${formatContentHeaders(response, options)}${formatReplyHeaders(response)}`
  if (response.retryAfter !== undefined) lines += `Retry-After: ${response.retryAfter}\r\n`
  if (response.status === 401) lines += challengeLine
  if (response.status === 405) lines += `Allow: ${allowedMethods(response.replies)}\r\n`
  if (response.status === 426) lines += upgradeHeaderLines
  if (options.closesConnection) lines += 'Connection: close\r\n'
  return lines
}

/** The headers of a response as writeHead() takes them. */
export const rawHeadersOf = (response: RpcResponse, options: ResponseOptions): string[] =>
  formatResponseHeaders(response, options)
    .split('\r\n')
    .slice(0, -1)
    .flatMap(line => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 2)]
    })

export const formatHeaderLines = (headers: RawHeaders): string => {
  let lines = ''
  for (let i = 0; i < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`
  return lines
}

/** How to authenticate (RFC 9110, 15.5.2), beside a key in the path, for which HTTP has no scheme. */
const challengeLine = formatHeaderLines(['WWW-Authenticate', 'Bearer realm="tollgate"'])

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

/** The credits of all calls together, 0 for a refusal; cache, upstream and verification only where there is one call. */
const formatReplyHeaders = ({ replies, isBatch }: RpcResponse): string => {
  const first = replies[0]
  let credits = isBatch === true || (first !== undefined && isFailure(first)) ? 0 : undefined
  let quota: CreditQuota | undefined
  let rateQuota: RateQuota | undefined
  for (const reply of replies) {
    if (reply.credits !== undefined) credits = (credits ?? 0) + reply.credits
    quota = reply.quota ?? quota
    rateQuota = reply.rateQuota ?? rateQuota
  }
  let lines = credits === undefined ? '' : `X-Tollgate-Credits: ${credits}\r\n`
  if (quota !== undefined || rateQuota !== undefined) lines += formatRateLimitHeaders(quota, rateQuota)
  const only = replies.length === 1 ? first : undefined
  if (only?.cache !== undefined) lines += `X-Tollgate-Cache: ${only.cache}\r\n`
  if (only?.upstream !== undefined) lines += `X-Tollgate-Upstream: ${only.upstream}\r\n`
  if (only !== undefined && !isFailure(only) && only.verified !== undefined) lines += `X-Tollgate-Verified: ${only.verified}\r\n`
  return lines
}

/** draft-ietf-httpapi-ratelimit-headers-10; all calls of one request draw from the same quotas. */
const formatRateLimitHeaders = (credits: CreditQuota | undefined, rate: RateQuota | undefined): string => {
  let [policies, states] = ['', '']
  if (credits !== undefined) {
    policies = `"daily-credits";q=${credits.limit};w=86400`
    states = `"daily-credits";r=${credits.remaining};t=${Math.ceil(credits.resetsInMs / 1000)}`
  }
  if (rate !== undefined) {
    const separator = credits === undefined ? '' : ', '
    policies += `${separator}"${rate.name}-per-second";q=${rate.limit};w=${Math.max(1, Math.ceil(rate.windowMs / 1000))}`
    states += `${separator}"${rate.name}-per-second";r=${rate.remaining};t=${Math.ceil(rate.resetsInMs / 1000)}`
  }
  return `RateLimit-Policy: ${policies}\r\nRateLimit: ${states}\r\n`
}

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
