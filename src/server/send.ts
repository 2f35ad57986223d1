import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Metrics } from '../services/metrics.ts'
import type { Answer } from '../wire/answer.ts'
import { bodyText } from '../wire/write.ts'
import type { Doors } from './door.ts'
import { cors, headerLines, headersOf } from './headers.ts'
import { expectReader, makeRoom, sendCompressed, sendPieces, shouldCompress } from './large.ts'
import { sendWhole } from './whole.ts'

const preflight = [...cors, 'Access-Control-Allow-Methods', 'POST, OPTIONS', 'Access-Control-Max-Age', '7200']

/** Answered before the key is looked at, as browsers send no credentials with it. */
export const sendPreflight = (req: IncomingMessage, res: ServerResponse): void => {
  const wanted = req.headers['access-control-request-headers'] ?? 'Content-Type'
  res.writeHead(204, [...preflight, 'Access-Control-Allow-Headers', wanted, 'Vary', 'Access-Control-Request-Headers'])
  res.end()
}

export const sendAnswer = (doors: Doors, res: ServerResponse, requestId: string, answer: Answer): void => {
  if (res.headersSent || res.destroyed) return
  if (answer.body !== undefined && answer.body.length > short) return sendLong(doors, res, requestId, answer)
  const closing = doors.traffic.draining
  const sent = { requestId, closing, isCompressed: false }
  const { status, body } = answer
  const text = body === undefined ? '' : bodyText(body)
  const isSent =
    body !== undefined && !closing && sendWhole(res, { status, lines: headerLines(answer, sent), date: doors.date(), body: text })
  if (!isSent) res.writeHead(status, [...headersOf(answer, sent)]).end(text, 'latin1')
  doors.answered(status)
}

/** Looked up once per status, as this is done for each call. */
export const countAnswers = (metrics: Metrics): Doors['answered'] => {
  const help = 'Answers over HTTP by status, refused WebSocket upgrades too; preflights are not counted.'
  const counters = new Map<number, { add(): void }>()
  const open = (status: number): { add(): void } => {
    const counter = metrics.counter('tollgate_http_answers_total', help, { status: String(status) })
    counters.set(status, counter)
    return counter
  }
  return status => (counters.get(status) ?? open(status)).add()
}

/** Up to here head and body go out in one write, as one text. */
const short = 16_384

const sendLong = (doors: Doors, res: ServerResponse, requestId: string, answer: Answer): void => {
  const told = makeRoom(doors, res, answer)
  expectReader(doors, res, requestId)
  const isCompressed = shouldCompress(res, told)
  res.writeHead(told.status, [...headersOf(told, { requestId, closing: doors.traffic.draining, isCompressed })])
  doors.answered(told.status)
  if (told.body === undefined) res.end()
  else if (isCompressed) sendCompressed(res, told.body)
  else sendPieces(res, told.body)
}
