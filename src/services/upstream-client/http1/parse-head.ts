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

const statusLinePattern = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t -~\x80-\xff]*)?$/
const namePattern = /^[!#$%&'*+\-.^_`|~\dA-Za-z]+$/
const visiblePattern = /^[\t -~\x80-\xff]*$/
/** At most 15 digits are exact in a number. */
const lengthPattern = /^\d{1,15}$/

/** Parses a head, one character per byte, without the empty line behind it. Throws an InvalidResponseError. */
export const parseHead = (head: string): ResponseHead => {
  const lines = head.split('\r\n')
  const [, minorVersion, statusCode] = statusLinePattern.exec(lines[0]!) ?? []
  if (statusCode === undefined) throw new InvalidResponseError('HTTP_STATUS_LINE')
  const status = Number(statusCode)
  const headers = parseHeaders(lines)
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

const parseHeaders = (lines: readonly string[]): ParsedHeaders => {
  const headers: Record<string, string> = Object.create(null)
  for (let i = 1; i < lines.length; i++) {
    const line = lines[i]!
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(0, colon))
    if (!namePattern.test(name) || !visiblePattern.test(line)) throw new InvalidResponseError('HTTP_HEADER')
    const lowerCaseName = name.toLowerCase()
    const value = withoutOuterSpace(line, colon + 1)
    const earlier = headers[lowerCaseName]
    headers[lowerCaseName] = earlier === undefined ? value : `${earlier}, ${value}`
  }
  return headers
}

/** The rest of the line without the spaces and tabs around it; trim() takes more for a space, such as 0xa0. A pattern takes 0.1 to 0.5 s for 16 KB of spaces. */
const withoutOuterSpace = (line: string, from: number): string => {
  let [start, end] = [from, line.length]
  while (start < end && isSpaceOrTab(line.charCodeAt(start))) start++
  while (end > start && isSpaceOrTab(line.charCodeAt(end - 1))) end--
  return line.slice(start, end)
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
