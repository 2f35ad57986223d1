import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { refuse } from '../reply.ts'
import type { Failure } from '../reply.ts'
import { failWhole } from '../wire/answer.ts'
import { bodyText } from '../wire/write.ts'
import type { Doors } from './door.ts'
import { nextRequestId } from './origin.ts'
import { headersOf } from './headers.ts'

/** The answer where Node has no response object to write it with. The connection ends with it, even if the caller goes on. */
export const refuseBare = (
  doors: Counting,
  stream: Duplex,
  failure: Failure,
  { requestId = nextRequestId(), more = [] }: { readonly requestId?: string; readonly more?: readonly string[] } = {},
): void => {
  const refusal = failWhole(failure)
  const headers = [...headersOf(refusal, { requestId, closing: true, isCompressed: false }), ...more]
  const lines = [`HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`]
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  stream.on('error', drop).once('finish', drop)
  stream.end(`${lines.join('\r\n')}\r\n\r\n${refusal.body === undefined ? '' : bodyText(refusal.body)}`, 'latin1')
  doors.answered(refusal.status)
}

type Counting = Pick<Doors, 'answered'>

/** For connections that Node has given up, whose errors nobody else hears. */
function drop(this: Duplex): void {
  this.destroy()
}

/** What Node would answer with a bare status of its own, or with nothing: here it gets the headers and the JSON of the table. */
export const answerStrangers = (server: Server, doors: Counting, serve: RequestListener): void => {
  server.on('checkExpectation', serve) // an expectation that is not known may be passed over
  server.on('connect', (_request, stream: Duplex) => refuseBare(doors, stream, refuse('httpMethod')))
  server.on('clientError', ({ code = '' }: NodeJS.ErrnoException, stream: Duplex) =>
    refuseStranger(doors, stream, strangers[code] ?? malformed),
  )
}

/** Not before the answer to a whole request that came first; and not behind the head of an answer to this one. */
const refuseStranger = (doors: Counting, stream: Duplex, failure: Failure): void => {
  const current = underWay(stream)
  if (!stream.writable) stream.destroy()
  else if (current?.req.complete === true) current.once('finish', () => refuseStranger(doors, stream, failure))
  else if (current?.headersSent === true) stream.destroy()
  else refuseBare(doors, stream, failure)
}

const malformed = refuse('malformed')

const strangers: Readonly<Record<string, Failure>> = {
  HPE_HEADER_OVERFLOW: refuse('headersTooLarge'),
  ERR_HTTP_REQUEST_TIMEOUT: refuse('late'),
}

/** The response that a connection is at; Node shows it to nobody, and looks at it itself before it answers what is no HTTP. */
const underWay = (stream: Duplex & { _httpMessage?: ServerResponse | null }): ServerResponse | undefined => stream._httpMessage ?? undefined

/**
 * Another protocol than WebSocket was offered, as Java's client offers h2c with each call. HTTP lets us pass over that
 * (RFC 9110, 7.8), but Node has given up the connection: it gets it back, with the same request less the offer.
 */
export const passOver = (server: Server, { method, url, httpVersion, rawHeaders }: IncomingMessage, stream: Duplex, rest: Buffer): void => {
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`)
  }
  const giveBack = () => {
    const before = underWay(stream)
    if (before !== undefined) return void before.once('finish', giveBack)
    stream.off('error', drop)
    stream.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), rest]))
    server.emit('connection', stream)
  }
  stream.on('error', drop)
  giveBack()
}
