import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Budget, Reply } from '../reply.ts'
import type { Answer } from '../wire/answer.ts'
import { bodyText } from '../wire/write.ts'
import type { Doors } from './door.ts'
import { makeRoom, sendCompressed, sendPieces, shouldCompress } from './large.ts'

/** Stand on every answer, errors included: a browser shows a page nothing of an answer without them. */
const cors = [
  'Access-Control-Allow-Origin', '*',
  'Access-Control-Expose-Headers',
  'X-Request-Id, X-Tollgate-Credits, X-Tollgate-Cache, X-Tollgate-Upstream, RateLimit-Policy, RateLimit, Retry-After',
]

const preflight = [...cors, 'Access-Control-Allow-Methods', 'POST, OPTIONS', 'Access-Control-Max-Age', '7200']

/** Answered before the key is looked at, as browsers send no credentials with it. */
export const sendPreflight = (req: IncomingMessage, res: ServerResponse): void => {
  const wanted = req.headers['access-control-request-headers'] ?? 'Content-Type'
  res.writeHead(204, [...preflight, 'Access-Control-Allow-Headers', wanted, 'Vary', 'Access-Control-Request-Headers'])
  res.end()
}

export const sendAnswer = ({ traffic, room }: Doors, res: ServerResponse, requestId: string, answer: Answer): void => {
  if (res.headersSent || res.destroyed) return
  const isShort = answer.body === undefined || answer.body.length <= short
  const told = isShort ? answer : makeRoom(room, res, answer)
  const { status, body } = told
  const isCompressed = !isShort && shouldCompress(res, told)
  res.writeHead(status, headersOf(told, requestId, { closing: traffic.draining, isCompressed }))
  if (body === undefined) res.end()
  else if (body.length <= short) sendShort(res, bodyText(body))
  else if (isCompressed) sendCompressed(res, body)
  else sendPieces(res, body)
}

const sendShort = (res: ServerResponse, text: string): void => {
  const { socket } = res
  socket?.cork()
  res.write(text, 'latin1')
  socket?.uncork()
  res.end()
}

/** Up to here the head and the body go out in one write, as one text. */
const short = 16_384

/** The headers of an answer, names and values in turn; also for the refusal of an upgrade. */
export const headersOf = (
  answer: Answer, requestId: string, { closing, isCompressed }: { closing: boolean, isCompressed: boolean },
): string[] => {
  const headers = [...cors, 'X-Request-Id', requestId, 'Cache-Control', 'no-store']
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
