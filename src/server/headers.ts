import type { Budget, Reply } from '../reply.ts'
import type { Answer } from '../wire/answer.ts'

/** Names and values in turn. */
export type Headers = readonly string[]

/** Stand on every answer, errors included: a browser shows a page nothing of an answer without them. */
export const cors: Headers = [
  'Access-Control-Allow-Origin', '*',
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

/** The headers of an answer; also for the refusal of an upgrade. */
export const headersOf = (answer: Answer, sent: Sent): Headers => [...fixed, ...ownHeaders(answer, sent)]

/** The same as text. */
export const headerLines = (answer: Answer, sent: Sent): string => fixedLines + linesOf(ownHeaders(answer, sent))

const linesOf = (headers: Headers): string => {
  let lines = ''
  for (let i = 0; i < headers.length; i += 2) lines += `${headers[i]}: ${headers[i + 1]}\r\n`
  return lines
}

const fixedLines = linesOf(fixed)

const ownHeaders = (answer: Answer, { requestId, closing, isCompressed }: Sent): string[] => {
  const headers = ['X-Request-Id', requestId]
  if (answer.body !== undefined) {
    headers.push('Content-Type', 'application/json')
    if (isCompressed) headers.push('Content-Encoding', 'gzip', 'Vary', 'Accept-Encoding')
    else headers.push('Content-Length', String(answer.body.length))
  }
  addTrail(headers, answer.replies)
  if (answer.retryAfter !== undefined) headers.push('Retry-After', String(answer.retryAfter))
  if (answer.status === 405) headers.push('Allow', 'POST, OPTIONS')
  if (closing) headers.push('Connection', 'close')
  return headers
}

/** The credits of all calls together; which cache and which node answered only where there is one call. */
const addTrail = (headers: string[], replies: readonly Reply[]): void => {
  let credits: number | undefined
  let budget: Budget | undefined
  for (const reply of replies) {
    if (reply.credits !== undefined) credits = (credits ?? 0) + reply.credits
    budget = reply.budget ?? budget
  }
  if (credits !== undefined) headers.push('X-Tollgate-Credits', String(credits))
  if (budget !== undefined) addBudget(headers, budget)
  const only = replies.length === 1 ? replies[0] : undefined
  if (only?.cache !== undefined) headers.push('X-Tollgate-Cache', only.cache)
  if (only?.upstream !== undefined) headers.push('X-Tollgate-Upstream', only.upstream)
}

/** draft-ietf-httpapi-ratelimit-headers-10; all calls of one request draw from the same budget. */
const addBudget = (headers: string[], { limit, left, endsIn }: Budget): void => {
  headers.push(
    'RateLimit-Policy', `"daily-credits";q=${limit};w=86400`,
    'RateLimit', `"daily-credits";r=${left};t=${Math.ceil(endsIn / 1000)}`)
}
