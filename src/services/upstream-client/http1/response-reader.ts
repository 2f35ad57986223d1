import { ascii } from '../../../json/grammar.ts'
import type { ResponseHandler, ResponseHeaders } from '../upstream-transport.ts'
import { InvalidResponseError } from '../network-errors.ts'
import { ChunkedBody } from './chunked-body.ts'

/** Longest head, as in undici and Node.js. */
const maxHeadBytes = 16_384
/** Most responses with a status below 200 before the response itself. */
const maxInformational = 8
const beginOfHead = 'HTTP/1.'
const endOfHead = '\r\n\r\n'

/** What a response consists of. */
type ResponseEvents = Pick<ResponseHandler, 'onHeaders' | 'onData'>

/**
 * Reads the response to one POST from the bytes of a connection (RFC 9112). It is strict: what two parsers could read in two ways
 * is invalid, such as two lengths, a length beside chunks, or a line that ends with a mere LF.
 */
export class ResponseReader {
  isComplete = false
  /** Whether the connection may carry another request, and for how long it may idle before, where the node says so. */
  isReusable = false
  keepAliveMs: number | undefined
  readonly #events: ResponseEvents
  readonly #headParser: HeadParser
  /** A head of which only a part has come. */
  #partialHead: Buffer | undefined
  #informationalCount = 0
  /** The rest of a body of known length; Infinity where the body ends with the connection. Undefined before the head has come. */
  #remainingBytes: number | undefined
  #chunkedBody: ChunkedBody | undefined

  constructor(events: ResponseEvents, headParser: HeadParser) {
    this.#events = events
    this.#headParser = headParser
  }

  /** The head of the response has come. */
  get hasHead(): boolean {
    return this.#remainingBytes !== undefined
  }

  /**
   * Reads the head, or what there is of the body, from `offset` on; returns the offset behind what it has read. It may move bytes of
   * the body within `bytes`. Throws an InvalidResponseError.
   */
  read(bytes: Buffer, offset: number): number {
    if (this.#remainingBytes === undefined) return this.#readHead(bytes, offset)
    if (this.#chunkedBody !== undefined) return this.#readChunks(bytes, offset, this.#chunkedBody)
    const end = Math.min(bytes.length, offset + this.#remainingBytes)
    this.#remainingBytes -= end - offset
    this.isComplete = this.#remainingBytes === 0
    this.#events.onData(bytes.subarray(offset, end), true)
    return end
  }

  /** The other side has ended the connection. True when that is how the response ends. */
  end(): boolean {
    if (this.#remainingBytes === Infinity && this.#chunkedBody === undefined) this.isComplete = true
    return this.isComplete
  }

  #readHead(bytes: Buffer, offset: number): number {
    if (this.#partialHead !== undefined) return this.#continueHead(this.#partialHead, bytes, offset)
    const end = bytes.indexOf(endOfHead, offset, 'latin1')
    if (end >= 0) {
      this.#handleHead(bytes, offset, end)
      return end + endOfHead.length
    }
    this.#partialHead = Buffer.from(bytes.subarray(offset))
    this.#checkPartialHead(this.#partialHead)
    return bytes.length
  }

  #continueHead(partialHead: Buffer, bytes: Buffer, offset: number): number {
    const head = Buffer.concat([partialHead, bytes.subarray(offset, offset + maxHeadBytes)])
    const end = head.indexOf(endOfHead, Math.max(0, partialHead.length - endOfHead.length), 'latin1')
    if (end < 0) {
      this.#partialHead = head
      this.#checkPartialHead(head)
      return bytes.length
    }
    this.#partialHead = undefined
    this.#handleHead(head, 0, end)
    return offset + end + endOfHead.length - partialHead.length
  }

  /** The beginning shows whether it is HTTP at all: other protocols send no empty line, and would be waited for. */
  #checkPartialHead(head: Buffer): void {
    const begin = head.toString('latin1', 0, beginOfHead.length)
    if (!beginOfHead.startsWith(begin)) throw new InvalidResponseError('HTTP_STATUS_LINE')
    this.#checkLength(head.length)
  }

  #checkLength(headBytes: number): void {
    if (headBytes > maxHeadBytes) throw new InvalidResponseError('HTTP_HEAD_TOO_LONG')
  }

  #handleHead(bytes: Buffer, start: number, end: number): void {
    this.#checkLength(end - start)
    const head = this.#headParser.parse(bytes.toString('latin1', start, end))
    if (head.status >= 200) return this.#beginBody(head)
    this.#informationalCount += 1
    // Nothing has been asked for that 101 could switch to.
    if (head.status === 101 || this.#informationalCount > maxInformational) throw new InvalidResponseError('HTTP_INFORMATIONAL')
  }

  #beginBody({ status, headers, framing, isReusable, keepAliveMs }: ResponseHead): void {
    this.isReusable = isReusable
    this.keepAliveMs = keepAliveMs
    if (framing === 'chunked') this.#chunkedBody = new ChunkedBody()
    this.#remainingBytes = framing === 'chunked' ? Infinity : framing
    this.isComplete = framing === 0
    this.#events.onHeaders(status, headers)
  }

  #readChunks(bytes: Buffer, offset: number, body: ChunkedBody): number {
    const end = body.read(bytes, offset)
    this.isComplete = body.isComplete
    if (body.dataEnd > offset) this.#events.onData(bytes.subarray(offset, body.dataEnd), true)
    return end
  }
}

interface ResponseHead {
  readonly status: number
  /** By lower-case name, those of newHeaders(). The values of a header that comes several times are joined with commas. */
  readonly headers: ResponseHeaders
  /** How the body ends: after so many bytes, Infinity being the end of the connection, or with its last chunk. */
  readonly framing: number | 'chunked'
  /** The connection may carry another request. */
  readonly isReusable: boolean
  /** For how long the node keeps the idle connection, by its header Keep-Alive. */
  readonly keepAliveMs: number | undefined
}

/**
 * Each character has one place in it, so that it takes time in proportion to the length. One pattern for the head takes 0.2 us where two for
 * each line take 1.
 */
const headPattern = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t -~\x80-\xff]*)?(?:\r\n[!#$%&'*+\-.^_`|~\dA-Za-z]+:[\t -~\x80-\xff]*)*$/
/** Tells an invalid status line from an invalid header. */
const statusLinePattern = /^HTTP\/1\.[01] [1-9]\d\d(?: [\t -~\x80-\xff]*)?(?:\r\n|$)/
/** At most 15 digits are exact in a number. */
const lengthPattern = /^\d{1,15}$/

const parseHead = (head: string): ResponseHead => {
  const [, minorVersion, statusCode] = headPattern.exec(head) ?? []
  if (statusCode === undefined) throw new InvalidResponseError(statusLinePattern.test(head) ? 'HTTP_HEADER' : 'HTTP_STATUS_LINE')
  const status = Number(statusCode)
  const headers = parseHeaders(head)
  const isChunked = headers['transfer-encoding'] !== undefined
  const framing = status < 200 || status === 204 || status === 304 ? 0 : framingOf(headers, isChunked)
  return {
    status,
    headers,
    framing,
    isReusable: framing !== Infinity && staysOpen(minorVersion === '1', headers['connection']),
    keepAliveMs: keepAliveOf(headers['keep-alive']),
  }
}

/**
 * Parses the heads of one connection. A node's responses have the same head, but for the date, which changes each second, and often the
 * length: to compare a head with the one before takes 20 ns, to parse it 1 us.
 */
export class HeadParser {
  #lastText: string | undefined
  #lastHead: ResponseHead | undefined

  /** One character per byte, without the empty line behind the head. Throws an InvalidResponseError. */
  parse(text: string): ResponseHead {
    if (this.#lastHead === undefined || text !== this.#lastText) {
      this.#lastHead = parseHead(text)
      this.#lastText = text
    }
    return this.#lastHead
  }
}

type ParsedHeaders = Readonly<Record<string, string | undefined>>

/** The headers that say something of a response; a dictionary of all takes 0.8 KB more. */
const newHeaders = (): Record<string, string | undefined> => ({
  connection: undefined,
  'content-encoding': undefined,
  'content-length': undefined,
  'content-type': undefined,
  date: undefined,
  'keep-alive': undefined,
  'retry-after': undefined,
  'transfer-encoding': undefined,
})

/** The headers of a head that fits the pattern. */
const parseHeaders = (head: string): ParsedHeaders => {
  const headers = newHeaders()
  let lineEnd = head.indexOf('\r\n')
  while (lineEnd >= 0) {
    const start = lineEnd + '\r\n'.length
    const colon = head.indexOf(':', start)
    lineEnd = head.indexOf('\r\n', colon)
    const name = head.slice(start, colon).toLowerCase()
    if (!Object.hasOwn(headers, name)) continue
    const value = withoutOuterSpace(head, colon + 1, lineEnd < 0 ? head.length : lineEnd)
    const earlier = headers[name]
    headers[name] = earlier === undefined ? value : `${earlier}, ${value}`
  }
  return headers
}

/** A part of the head without the spaces and tabs around it; trim() takes more for a space, such as 0xa0. A pattern takes 0.1 to 0.5 s for 16 KB of spaces. */
const withoutOuterSpace = (head: string, from: number, to: number): string => {
  let [start, end] = [from, to]
  while (start < end && isSpaceOrTab(head.charCodeAt(start))) start++
  while (end > start && isSpaceOrTab(head.charCodeAt(end - 1))) end--
  return head.slice(start, end)
}

const isSpaceOrTab = (code: number): boolean => code === ascii.space || code === ascii.tab

/** A response with a length and chunks, or with two lengths, is how one response is made to look like two. */
const framingOf = (headers: ParsedHeaders, isChunked: boolean): ResponseHead['framing'] => {
  const length = headers['content-length']
  if (isChunked && (length !== undefined || headers['transfer-encoding']?.toLowerCase() !== 'chunked'))
    throw new InvalidResponseError('HTTP_TRANSFER_ENCODING')
  if (isChunked) return 'chunked'
  if (length === undefined) return Infinity
  if (!lengthPattern.test(length)) throw new InvalidResponseError('HTTP_CONTENT_LENGTH')
  return Number(length)
}

const staysOpen = (isVersion11: boolean, connection = ''): boolean =>
  isVersion11 ? !/\bclose\b/i.test(connection) : /\bkeep-alive\b/i.test(connection)

const keepAliveOf = (header = ''): number | undefined => {
  const [, seconds] = /\btimeout=(\d{1,9})/i.exec(header) ?? []
  return seconds === undefined ? undefined : Number(seconds) * 1000
}
