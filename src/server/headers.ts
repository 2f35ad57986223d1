import { isFailure } from '../reply.ts'
import type { Budget, Reply } from '../reply.ts'
import type { Answer } from '../wire/answer.ts'

/** Names and values in turn. */
export type Headers = readonly string[]

/** Stand on every answer, errors included: a browser shows a page nothing of an answer without them. */
export const cors: Headers = [
  'Access-Control-Allow-Origin',
  '*',
  'Access-Control-Expose-Headers',
  'X-Request-Id, X-Tollgate-Credits, X-Tollgate-Cache, X-Tollgate-Upstream, RateLimit-Policy, RateLimit, Retry-After',
]

/** Those of every answer to a call. */
const fixed: Headers = [...cors, 'Cache-Control', 'no-store']

export interface Sent {
  readonly requestId: string
  /** The connection ends with it. */
  readonly closing: boolean
  readonly isCompressed: boolean
}

/** The headers of an answer as text, a line each. */
export const headerLines = (answer: Answer, sent: Sent): string => {
  let lines = `${fixedLines}X-Request-Id: ${sent.requestId}\r\n${contentLines(answer, sent)}${trailLines(answer.replies)}`
  if (answer.retryAfter !== undefined) lines += `Retry-After: ${answer.retryAfter}\r\n`
  if (answer.status === 405) lines += `Allow: ${allowedBy(answer.replies)}\r\n`
  if (sent.closing) lines += 'Connection: close\r\n'
  return lines
}

/** The same as Node wants them; also for the refusal of an upgrade. */
export const headersOf = (answer: Answer, sent: Sent): Headers =>
  headerLines(answer, sent)
    .split('\r\n')
    .slice(0, -1)
    .flatMap(line => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon), line.slice(colon + 2)]
    })

const linesOf = (headers: Headers): string => {
  let lines = ''
  for (let i = 0; i < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`
  return lines
}

const fixedLines = linesOf(fixed)

const contentLines = ({ body }: Answer, { isCompressed }: Sent): string =>
  body === undefined
    ? ''
    : isCompressed
      ? 'Content-Type: application/json\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\n'
      : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`

const allowedBy = ([refusal]: readonly Reply[]): string =>
  refusal !== undefined && isFailure(refusal) && refusal.allow !== undefined ? refusal.allow : 'POST, OPTIONS'

/** The credits of all calls together; which cache and which node answered only where there is one call. */
const trailLines = (replies: readonly Reply[]): string => {
  let credits: number | undefined
  let budget: Budget | undefined
  for (const reply of replies) {
    if (reply.credits !== undefined) credits = (credits ?? 0) + reply.credits
    budget = reply.budget ?? budget
  }
  let lines = credits === undefined ? '' : `X-Tollgate-Credits: ${credits}\r\n`
  if (budget !== undefined) lines += budgetLines(budget)
  const only = replies.length === 1 ? replies[0] : undefined
  if (only?.cache !== undefined) lines += `X-Tollgate-Cache: ${only.cache}\r\n`
  if (only?.upstream !== undefined) lines += `X-Tollgate-Upstream: ${only.upstream}\r\n`
  return lines
}

/** draft-ietf-httpapi-ratelimit-headers-10; all calls of one request draw from the same budget. */
const budgetLines = ({ limit, left, endsIn }: Budget): string =>
  `RateLimit-Policy: "daily-credits";q=${limit};w=86400\r\n` + `RateLimit: "daily-credits";r=${left};t=${Math.ceil(endsIn / 1000)}\r\n`
