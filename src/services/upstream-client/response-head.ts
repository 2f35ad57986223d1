import type { Transform } from 'node:stream'
import { createBrotliDecompress, createUnzip } from 'node:zlib'
import type { Target } from '../../plugin/call.ts'
import { copyReply, refuse } from '../../plugin/reply.ts'
import type { Failure } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import type { ResponseHeaders } from './http-client.ts'

/** What the head of an answer says about its body. */
export interface ResponseHead {
  /** The body is not worth reading. */
  readonly failure?: Failure
  /** What it comes to when its body is no JSON-RPC answer, or breaks off. */
  readonly fallbackFailure?: Failure
  /** A result in the body counts for nothing, but an error may say more than the head does. */
  readonly discardsResult?: true
  /** What the body must go through first. */
  readonly decoder?: ContentDecoder
  /** Bytes of the body, where the node announced them. */
  readonly contentLength?: number | undefined
}

export interface ContentDecoder {
  readonly kind: 'zlib' | 'brotli'
  createStream(): Transform
}

interface HeadContext {
  readonly target: Target
  readonly clock: Clock
}

export const readResponseHead = (status: number, headers: ResponseHeaders, context: HeadContext): ResponseHead => {
  const failure = statusFailure(status, headers, context)
  if (failure !== undefined) return mayCarryRpcError(status, headers) ? withFallbackFailure(failure, headers, context) : { failure }
  const body = readBodyHeaders(headers, context)
  return tooLongStatuses.has(status) ? { ...body, fallbackFailure: requestTooLong(context.target, `HTTP ${status}`) } : body
}

/** Some providers put HTTP 503 on a query that takes too long, or on what is over our rate. */
const mayCarryRpcError = (status: number, headers: ResponseHeaders): boolean =>
  status >= 500 && /^application\/json\b/i.test(String(headers['content-type']))

const withFallbackFailure = (failure: Failure, headers: ResponseHeaders, context: HeadContext): ResponseHead => {
  const body = readBodyHeaders(headers, context)
  return body.failure === undefined ? { ...body, fallbackFailure: failure, discardsResult: true } : { failure }
}

const readBodyHeaders = (headers: ResponseHeaders, context: HeadContext): ResponseHead => {
  const encoding = headers['content-encoding']
  if (encoding === undefined) return { contentLength: contentLengthOf(headers) }
  const name = String(encoding).trim().toLowerCase()
  if (name === 'identity' || name === '') return { contentLength: contentLengthOf(headers) }
  const decoder = decoderFor(name)
  return decoder === undefined
    ? { failure: upstreamFailure(context.target, 'the answer is compressed in a way that is not known') }
    : { decoder }
}

export const upstreamFailure = ({ name: upstream, source }: Target, cause: string): Failure =>
  refuse('unavailable', { source, upstream, cause })

/**
 * The node takes no question of this length. The caller's question is at fault as little as the node's health: the door
 * let it in, so another node, or the partner, is to take it.
 */
const requestTooLong = ({ name: upstream, source }: Target, cause: string): Failure =>
  refuse('bodyTooLarge', { source, upstream, cause, fault: 'upstream', retryElsewhere: true })

const contentLengthOf = (headers: ResponseHeaders): number | undefined => {
  const length = Number(headers['content-length'])
  return Number.isSafeInteger(length) ? length : undefined
}

/** Some nodes put HTTP 400 on a plain JSON-RPC error. What refuses us, not the call, is the node's own trouble. */
const statusFailure = (status: number, headers: ResponseHeaders, { target, clock }: HeadContext): Failure | undefined => {
  const mayCarryResponse = status === 200 || (status >= 400 && status < 500 && status !== 429 && !rejectingStatuses.has(status))
  if (mayCarryResponse) return undefined
  const failure = upstreamFailure(target, `HTTP ${status}`)
  return status === 429
    ? copyReply(failure, { category: 'rateLimited', retryAfter: parseRetryAfter(headers['retry-after'], clock) })
    : failure
}

const rejectingStatuses: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 407])

/** Of the body, the target, the headers. */
const tooLongStatuses: ReadonlySet<number> = new Set([413, 414, 431])

/** Retry-After is a number of seconds or a date. */
const parseRetryAfter = (header: string | string[] | undefined, clock: Clock): number | undefined => {
  const text = String(header ?? '').trim()
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - clock.now()) / 1000
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined
}

/** One encoding only: each further one multiplies what a few bytes can become. */
const decoderFor = (encoding: string): ContentDecoder | undefined =>
  /^(x-)?gzip$|^deflate$/.test(encoding)
    ? { kind: 'zlib', createStream: () => createUnzip({ chunkSize: decompressedChunkBytes }) }
    : encoding === 'br'
      ? { kind: 'brotli', createStream: () => createBrotliDecompress({ chunkSize: decompressedChunkBytes }) }
      : undefined

const decompressedChunkBytes = 65_536
