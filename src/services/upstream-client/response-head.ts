import type { Transform } from 'node:stream'
import { createBrotliDecompress, createUnzip } from 'node:zlib'
import type { Target } from '../../plugin/call.ts'
import { copyReply, refuse } from '../../plugin/reply.ts'
import type { ErrorCategory } from '../../plugin/error-table.ts'
import type { Failure } from '../../plugin/reply.ts'
import type { Clock } from '../clock.ts'
import type { InFlightRequest, ResponseHandler, ResponseHeaders, UpstreamSockets } from './upstream-transport.ts'
import { describeNetworkError, localLimitOf } from './network-errors.ts'

/** What the status and the headers of a response say about its body. */
interface BodyHandling {
  /** The body is not worth reading. */
  readonly failure?: Failure
  /** The failure when the body is no JSON-RPC response, or ends early. */
  readonly fallbackFailure?: Failure
  /** A result in the body is ignored; an error may say more than the status does. */
  readonly discardsResult?: true
  /** Decompresses the body. */
  readonly decoder?: ContentDecoder
  /** Bytes of the body, where the node announced their number. */
  readonly contentLength?: number | undefined
}

interface HeadContext {
  readonly target: Target
  readonly clock: Clock
}

export const readResponseHead = (status: number, headers: ResponseHeaders, context: HeadContext): BodyHandling => {
  const failure = statusFailure(status, headers, context)
  if (failure !== undefined) return mayCarryRpcError(status, headers) ? withFallbackFailure(failure, headers, context) : { failure }
  const body = readBodyHeaders(headers, context)
  return tooLongStatuses.has(status) ? { ...body, fallbackFailure: requestTooLong(context.target, `HTTP ${status}`) } : body
}

/** Some providers answer HTTP 503 to a query that takes too long, or that exceeds the rate limit. */
const mayCarryRpcError = (status: number, headers: ResponseHeaders): boolean =>
  status >= 500 && /^application\/json\b/i.test(String(headers['content-type']))

const withFallbackFailure = (failure: Failure, headers: ResponseHeaders, context: HeadContext): BodyHandling => {
  const body = readBodyHeaders(headers, context)
  return body.failure === undefined ? { ...body, fallbackFailure: failure, discardsResult: true } : { failure }
}

const readBodyHeaders = (headers: ResponseHeaders, context: HeadContext): BodyHandling => {
  const encoding = headers['content-encoding']
  if (encoding === undefined) return { contentLength: contentLengthOf(headers) }
  const name = String(encoding).trim().toLowerCase()
  if (name === 'identity' || name === '') return { contentLength: contentLengthOf(headers) }
  const decoder = decoderFor(name)
  return decoder === undefined ? { failure: upstreamFailure(context.target, 'unsupported content encoding') } : { decoder }
}

export const upstreamFailure = ({ name: upstream, source }: Target, cause: string): Failure =>
  refuse('unavailable', { source, upstream, cause })

/** No sign of the node's health: another node may send its response uncompressed. */
export const tooManyCompressed = ({ name: upstream, source }: Target): Failure =>
  refuse('unavailable', { source, upstream, cause: 'too many compressed responses at once', retryElsewhere: true, retryAfter: 1 })

/** Nethermind streams a result, and reports only behind it, in `_streamStatus`, that the query was too much. */
export const truncatedResult = (target: Target, status: string): Failure =>
  copyReply(upstreamFailure(target, 'result truncated'), { category: categoryByStreamStatus.get(status) })

const categoryByStreamStatus: ReadonlyMap<string, ErrorCategory> = new Map([
  ['truncated', 'tooMany'],
  ['timeout', 'timeout'],
])

/** The failure for what the HTTP client reports. Where a limit of this process is the reason, neither caller nor node is to blame. */
export const networkFailure = (error: unknown, target: Target, { recordRefused }: UpstreamSockets): Failure => {
  const cause = localLimitOf(error)
  if (cause === undefined) return upstreamFailure(target, describeNetworkError(error))
  recordRefused('upstream', { code: cause })
  const message = 'the gateway has no connection left; retry later'
  return refuse('unavailable', { source: 'gateway', fault: 'gateway', upstream: target.name, cause, retryAfter: 1, message })
}

/**
 * The node accepts no request of this length. It is neither the caller's fault, as the gateway accepted the request, nor a
 * sign of the node's health: another node, or the partner, may accept it.
 */
const requestTooLong = ({ name: upstream, source }: Target, cause: string): Failure =>
  refuse('bodyTooLarge', { source, upstream, cause, fault: 'upstream', retryElsewhere: true })

const contentLengthOf = (headers: ResponseHeaders): number | undefined => {
  const length = Number(headers['content-length'])
  return Number.isSafeInteger(length) ? length : undefined
}

/** Some nodes answer HTTP 400 with a JSON-RPC error. A status that rejects the gateway, not the call, is an upstream failure. */
const statusFailure = (status: number, headers: ResponseHeaders, { target, clock }: HeadContext): Failure | undefined => {
  const mayCarryResponse = status === 200 || (status >= 400 && status < 500 && status !== 429 && !rejectingStatuses.has(status))
  if (mayCarryResponse) return undefined
  const failure = upstreamFailure(target, `HTTP ${status}`)
  return status === 429 ? copyReply(failure, { category: 'rateLimited', retryAfter: parseRetryAfter(headers, clock) }) : failure
}

const rejectingStatuses: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 407])

/** The body, the target or the headers are too long. */
const tooLongStatuses: ReadonlySet<number> = new Set([413, 414, 431])

/** In seconds; the header is a number of seconds or a date. A date is by the node's clock, which may differ from ours. */
const parseRetryAfter = (headers: ResponseHeaders, clock: Clock): number | undefined => {
  const text = String(headers['retry-after'] ?? '').trim()
  const nodeTime = Date.parse(String(headers['date']))
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - (Number.isNaN(nodeTime) ? clock.now() : nodeTime)) / 1000
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined
}

/** What decompresses a body of one Content-Encoding. */
export interface ContentDecoder {
  readonly kind: 'zlib' | 'brotli'
  createStream(): Transform
}

/** Undefined where the encoding is not supported. One encoding only: each further one multiplies what a few bytes can become. */
const decoderFor = (encoding: string): ContentDecoder | undefined =>
  /^(x-)?gzip$|^deflate$/.test(encoding)
    ? { kind: 'zlib', createStream: () => createUnzip({ chunkSize: decompressedChunkBytes }) }
    : encoding === 'br'
      ? { kind: 'brotli', createStream: () => createBrotliDecompress({ chunkSize: decompressedChunkBytes }) }
      : undefined

const decompressedChunkBytes = 65_536

/** Decompresses a response as it comes, off the event loop and no faster than it is consumed. */
export class Decompressor {
  readonly #stream: Transform
  readonly #request: InFlightRequest

  constructor(stream: Transform, request: InFlightRequest, handler: Omit<ResponseHandler, 'onStart' | 'onHeaders'>) {
    this.#stream = stream
    this.#request = request
    stream.on('data', (bytes: Buffer) => handler.onData(bytes))
    stream.on('end', () => handler.onEnd())
    stream.on('error', error => handler.onError(error))
    stream.on('drain', () => request.resume())
  }

  write(bytes: Buffer): void {
    if (!this.#stream.write(bytes)) this.#request.pause()
  }

  end(): void {
    this.#stream.end()
  }

  destroy(): void {
    this.#stream.destroy()
  }
}
