import { STATUS_CODES } from 'node:http'
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { bodyToLatin1 } from '../json-rpc/serialize-response.ts'
import type { RpcContext } from './rpc-context.ts'
import { nextRequestId } from './request-origin.ts'
import { rawHeadersOf } from './response-headers.ts'

/** The answer where Node has no response object to write it with. The connection ends with it, even if the caller goes on. */
export const sendRawError = (
  responseCounter: ResponseCounter,
  stream: Duplex,
  failure: Failure,
  { requestId = nextRequestId(), more: extraHeaders = [] }: { readonly requestId?: string; readonly more?: readonly string[] } = {},
): void => {
  const response = failureResponse(failure)
  const headers = [...rawHeadersOf(response, { requestId, closesConnection: true, isCompressed: false }), ...extraHeaders]
  const lines = [`HTTP/1.1 ${response.status} ${STATUS_CODES[response.status]}`]
  for (let i = 0; i < headers.length; i += 2) lines.push(`${headers[i]}: ${headers[i + 1]}`)
  stream.on('error', destroyStream).once('finish', destroyStream)
  stream.end(`${lines.join('\r\n')}\r\n\r\n${response.body === undefined ? '' : bodyToLatin1(response.body)}`, 'latin1')
  responseCounter.countResponse(response.status)
}

type ResponseCounter = Pick<RpcContext, 'countResponse'>

/** For connections that Node has given up, whose errors nobody else hears. */
function destroyStream(this: Duplex): void {
  this.destroy()
}

/** What Node would answer with a bare status of its own, or with nothing: here it gets the headers and the JSON of the table. */
export const handleParserErrors = (server: Server, responseCounter: ResponseCounter, serve: RequestListener): void => {
  server.on('checkExpectation', serve) // an expectation that is not known may be passed over
  server.on('connect', (_request, stream: Duplex) => sendRawError(responseCounter, stream, refuse('httpMethod')))
  server.on('clientError', ({ code = '' }: NodeJS.ErrnoException, stream: Duplex) =>
    respondToParserError(responseCounter, stream, failureByParserError[code] ?? malformedRequest),
  )
}

/** Not before the answer to a whole request that came first; and not behind the head of an answer to this one. */
const respondToParserError = (responseCounter: ResponseCounter, stream: Duplex, failure: Failure): void => {
  const inProgress = currentResponse(stream)
  if (!stream.writable) stream.destroy()
  else if (inProgress?.req.complete === true) inProgress.once('finish', () => respondToParserError(responseCounter, stream, failure))
  else if (inProgress?.headersSent === true) stream.destroy()
  else sendRawError(responseCounter, stream, failure)
}

const malformedRequest = refuse('malformed')

const failureByParserError: Readonly<Record<string, Failure>> = {
  HPE_HEADER_OVERFLOW: refuse('headersTooLarge'),
  ERR_HTTP_REQUEST_TIMEOUT: refuse('late'),
}

/** The response that a connection is at; Node shows it to nobody, and looks at it itself before it answers what is no HTTP. */
const currentResponse = (stream: Duplex & { _httpMessage?: ServerResponse | null }): ServerResponse | undefined =>
  stream._httpMessage ?? undefined

/**
 * Another protocol than WebSocket was offered, as Java's client offers h2c with each call. HTTP lets us pass over that
 * (RFC 9110, 7.8), but Node has given up the connection: it gets it back, with the same request less the offer.
 */
export const ignoreUpgrade = (
  server: Server,
  { method, url, httpVersion, rawHeaders }: IncomingMessage,
  stream: Duplex,
  head: Buffer,
): void => {
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`)
  }
  const reinject = () => {
    const inProgress = currentResponse(stream)
    if (inProgress !== undefined) return void inProgress.once('finish', reinject)
    stream.off('error', destroyStream)
    stream.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
    server.emit('connection', stream)
  }
  stream.on('error', destroyStream)
  reinject()
}
