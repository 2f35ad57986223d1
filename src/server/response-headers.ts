import { isFailure } from '../plugin/reply.ts'
import type { CreditQuota, Reply } from '../plugin/reply.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'

/** Names and values in turn. */
export type RawHeaders = readonly string[]

/** Stand on every answer, errors included: a browser shows a page nothing of an answer without them. */
export const corsHeaders: RawHeaders = [
  'Access-Control-Allow-Origin',
  '*',
  'Access-Control-Expose-Headers',
  'X-Request-Id, X-Tollgate-Credits, X-Tollgate-Cache, X-Tollgate-Upstream, RateLimit-Policy, RateLimit, Retry-After',
]

/** Those of every answer to a call. */
const rpcHeaders: RawHeaders = [...corsHeaders, 'Cache-Control', 'no-store']

export interface ResponseOptions {
  readonly requestId: string
  /** The connection ends with it. */
  readonly closesConnection: boolean
  readonly isCompressed: boolean
}

/** The headers of an answer as text, a line each. */
export const formatResponseHeaders = (response: RpcResponse, options: ResponseOptions): string => {
  let lines = `${rpcHeaderLines}X-Request-Id: ${options.requestId}\r\n${formatContentHeaders(response, options)}${formatReplyHeaders(response.replies)}`
  if (response.retryAfter !== undefined) lines += `Retry-After: ${response.retryAfter}\r\n`
  if (response.status === 405) lines += `Allow: ${allowedMethods(response.replies)}\r\n`
  if (options.closesConnection) lines += 'Connection: close\r\n'
  return lines
}

/** The same as Node wants them; also for the refusal of an upgrade. */
export const rawHeadersOf = (response: RpcResponse, options: ResponseOptions): RawHeaders =>
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

const rpcHeaderLines = formatHeaderLines(rpcHeaders)

const formatContentHeaders = ({ body }: RpcResponse, { isCompressed }: ResponseOptions): string =>
  body === undefined
    ? ''
    : isCompressed
      ? 'Content-Type: application/json\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n'
      : `Content-Type: application/json\r\nContent-Length: ${body.byteLength}\r\n`

const allowedMethods = ([refusal]: readonly Reply[]): string =>
  refusal !== undefined && isFailure(refusal) && refusal.allow !== undefined ? refusal.allow : 'POST, OPTIONS'

/** The credits of all calls together; which cache and which node answered only where there is one call. */
const formatReplyHeaders = (replies: readonly Reply[]): string => {
  let credits: number | undefined
  let budget: CreditQuota | undefined
  for (const reply of replies) {
    if (reply.credits !== undefined) credits = (credits ?? 0) + reply.credits
    budget = reply.quota ?? budget
  }
  let lines = credits === undefined ? '' : `X-Tollgate-Credits: ${credits}\r\n`
  if (budget !== undefined) lines += formatRateLimitHeaders(budget)
  const only = replies.length === 1 ? replies[0] : undefined
  if (only?.cache !== undefined) lines += `X-Tollgate-Cache: ${only.cache}\r\n`
  if (only?.upstream !== undefined) lines += `X-Tollgate-Upstream: ${only.upstream}\r\n`
  return lines
}

/** draft-ietf-httpapi-ratelimit-headers-10; all calls of one request draw from the same budget. */
const formatRateLimitHeaders = ({ limit, remaining, resetsInMs }: CreditQuota): string =>
  `RateLimit-Policy: "daily-credits";q=${limit};w=86400\r\n` +
  `RateLimit: "daily-credits";r=${remaining};t=${Math.ceil(resetsInMs / 1000)}\r\n`
