import { ascii } from '../../../json/grammar.ts'
import type { ResponseHeaders } from '../http-connection.ts'

export interface ResponseHead {
  readonly status: number
  /** By lower-case name. The values of a header that comes several times are joined with commas. */
  readonly headers: ResponseHeaders
  /** How the body ends: after so many bytes, Infinity being the end of the connection, or with its last chunk. */
  readonly framing: number | 'chunked'
  /** The connection may carry another request. */
  readonly isReusable: boolean
  /** For how long the node keeps the idle connection, by its header Keep-Alive. */
  readonly keepAliveMs: number | undefined
}

/** The error of a response that is not HTTP/1.1. The code is for the log; it holds nothing of what the node wrote. */
export class InvalidResponseError extends Error {
  override readonly name = 'InvalidResponseError'
  readonly code: string

  constructor(code: `HTTP_${string}`) {
    super('invalid HTTP response')
    this.code = code
  }
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

/** Parses a head, one character per byte, without the empty line behind it. Throws an InvalidResponseError. */
export const parseHead = (head: string): ResponseHead => {
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

type ParsedHeaders = Readonly<Record<string, string>>

/** The headers of a head that fits the pattern. */
const parseHeaders = (head: string): ParsedHeaders => {
  const headers: Record<string, string> = Object.create(null)
  let lineEnd = head.indexOf('\r\n')
  while (lineEnd >= 0) {
    const start = lineEnd + '\r\n'.length
    const colon = head.indexOf(':', start)
    lineEnd = head.indexOf('\r\n', colon)
    const name = head.slice(start, colon).toLowerCase()
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
