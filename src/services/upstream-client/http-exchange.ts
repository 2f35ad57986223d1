import type { Request, Target } from '../../plugin/call.ts'
import { copyReply, refuse } from '../../plugin/reply.ts'
import type { Failure, ErrorCategory, Reply } from '../../plugin/reply.ts'
import { ResponseParser, serializeRequest } from '../../json-rpc/parse-response.ts'
import type { ParsedResponse } from '../../json-rpc/parse-response.ts'
import type { Clock } from '../clock.ts'
import { describeNetworkError } from './network-error.ts'
import type { ConcurrencyLimit } from './concurrency-limit.ts'
import { readResponseHead, upstreamFailure } from './response-head.ts'
import type { ContentDecoder } from './response-head.ts'
import { Decompressor } from './decompression.ts'
import type { ResponseHeaders, ResponseHandler, HttpClient, InFlightRequest } from './http-client.ts'
import type { Endpoint } from './endpoint.ts'
import { overloaded } from '../memory-budget.ts'
import type { MemoryBudget } from '../memory-budget.ts'
import type { RequestDeadline } from './request-deadline.ts'

/** What one request is sent and its answer read with. */
export interface ExchangeOptions {
  /** Of the request. */
  readonly id: number
  readonly request: Request
  readonly target: Target
  /** Most bytes, inflated. */
  readonly maxBytes: number
  readonly idempotent: boolean
  readonly clock: Clock
  readonly memoryBudget: MemoryBudget
  readonly decompressionLimits: Readonly<Record<ContentDecoder['kind'], ConcurrencyLimit>>
  readonly deadline: RequestDeadline
  /** Called once, when it is over. */
  onSettled(): void
}

/** Sends a request and reads the answer to its end, or until it cannot become one. Rejects only because of a bug. */
export const sendRequest = (httpClient: HttpClient, endpoint: Endpoint, options: ExchangeOptions): Promise<Reply> =>
  new Promise((resolve, reject) => new HttpExchange(options, resolve, reject).start(httpClient, endpoint))

/** Hears of the answer as it comes: without a stream, and without any promise but the one it settles. */
class HttpExchange implements ResponseHandler {
  readonly #options: ExchangeOptions
  readonly #resolve: (reply: Reply) => void
  readonly #reject: (bug: unknown) => void
  #inFlight: InFlightRequest | undefined
  #parser: ResponseParser | undefined
  #decompressor: Decompressor | undefined
  /** Where the inflation has its place. */
  #decompressionLimit: ConcurrencyLimit | undefined
  /** What the answer comes to when it is none. */
  #fallbackFailure: Failure | undefined
  #discardsResult = false
  #reservedBytes = 0
  /** Bytes since others had their turn. */
  #bytesThisTurn = 0
  #isSettled = false

  constructor(options: ExchangeOptions, resolve: (reply: Reply) => void, reject: (bug: unknown) => void) {
    this.#options = options
    this.#resolve = resolve
    this.#reject = reject
  }

  start(httpClient: HttpClient, endpoint: Endpoint): void {
    const { id, request, idempotent, deadline } = this.#options
    this.#watchDeadline()
    if (this.#isSettled) return
    try {
      deadline.startProbe()
      this.#inFlight = httpClient.post(endpoint, serializeRequest(id, request), this, idempotent)
    } catch (bug) {
      this.onError(bug)
    }
  }

  onHeaders(status: number, headers: ResponseHeaders): void {
    const { target, clock, maxBytes } = this.#options
    const head = readResponseHead(status, headers, { target, clock })
    if (head.failure !== undefined) return this.#settle(head.failure)
    if (head.contentLength !== undefined && head.contentLength > maxBytes) return this.#settle(responseTooLarge(target))
    this.#fallbackFailure = head.fallbackFailure
    this.#discardsResult = head.discardsResult === true
    this.#parser = new ResponseParser(head.contentLength)
    if (head.decoder !== undefined && this.#inFlight !== undefined) void this.#startDecompression(head.decoder, this.#inFlight)
  }

  onData(bytes: Buffer): void {
    this.#options.deadline.recordBytes(bytes.length)
    if (this.#decompressor !== undefined) return this.#decompressor.write(bytes)
    this.#receive(bytes)
    this.#yieldToEventLoop(bytes.length)
  }

  onEnd(): void {
    if (this.#decompressor === undefined) this.#complete()
    else this.#decompressor.end()
  }

  onError(error: unknown): void {
    if (this.#isSettled) return
    const cause = describeNetworkError(error)
    // A broken exchange is the upstream's fault; a bug of ours is not, and goes on as what it is.
    if (cause !== undefined) return this.#settle(this.#fallbackFailure ?? upstreamFailure(this.#options.target, cause))
    this.#cleanUp()
    this.#reject(error)
  }

  #receive(bytes: Buffer): void {
    const { target, maxBytes, memoryBudget } = this.#options
    const parser = this.#parser
    if (parser === undefined || this.#isSettled) return
    if (parser.byteLength + bytes.length > maxBytes) return this.#settle(responseTooLarge(target))
    if (!memoryBudget.reserve(bytes.length)) return this.#settle(overloaded({ upstream: target.name }))
    this.#reservedBytes += bytes.length
    if (!parser.push(bytes)) this.#complete()
  }

  /** Others get their turn: what has arrived is read 2 MB at once, which held up the event loop for 5 ms and more. */
  #yieldToEventLoop(length: number): void {
    this.#bytesThisTurn += length
    if (this.#bytesThisTurn < maxBytesPerTurn || this.#isSettled) return
    this.#bytesThisTurn = 0
    this.#inFlight?.pause()
    setImmediate(() => this.#inFlight?.resume())
  }

  #complete(): void {
    if (this.#isSettled) return
    const response = this.#parser?.finish(this.#options.id)
    this.#settle(response === undefined ? upstreamFailure(this.#options.target, 'no head') : this.#toReply(response))
  }

  #toReply(response: ParsedResponse): Reply {
    const { target } = this.#options
    if (this.#discardsResult && this.#fallbackFailure !== undefined)
      return copyReply(this.#fallbackFailure, response.kind === 'error' ? { nodeError: response.error } : {})
    switch (response.kind) {
      case 'error':
        return {
          source: target.source,
          upstream: target.name,
          kind: 'node',
          error: response.error,
          fault: 'caller',
          status: 200,
        }
      case 'garbage':
        return this.#fallbackFailure ?? upstreamFailure(target, response.reason)
      case 'result':
        return response.streamStatus !== undefined
          ? truncatedResult(target, response.streamStatus)
          : { result: response.result, count: response.count, source: target.source, upstream: target.name }
    }
  }

  /** So many at once. No byte comes until there is a place. */
  async #startDecompression({ kind, createStream }: ContentDecoder, inFlight: InFlightRequest): Promise<void> {
    const {
      decompressionLimits: { [kind]: limit },
      deadline,
      target,
    } = this.#options
    inFlight.pause()
    const isAcquired = await limit.acquire(deadline)
    this.#watchDeadline()
    if (!isAcquired)
      return this.#settle(
        copyReply(upstreamFailure(target, 'too many compressed answers at once'), { retryElsewhere: true, retryAfter: 1 }),
      )
    if (this.#isSettled) return limit.release()
    this.#decompressor = new Decompressor(createStream(), inFlight, {
      onData: bytes => this.#receive(bytes),
      onEnd: () => this.#complete(),
      onError: error => this.onError(error),
    })
    this.#decompressionLimit = limit
    inFlight.resume()
  }

  #watchDeadline(): void {
    const { deadline, target } = this.#options
    const onEnd = () => this.#settle(deadline.toFailure(target) ?? upstreamFailure(target, 'it was ended'))
    deadline.onCancel = onEnd
    if (deadline.isCanceled) onEnd()
  }

  #settle(reply: Reply): void {
    if (this.#isSettled) return
    this.#cleanUp()
    this.#resolve(reply)
  }

  #cleanUp(): void {
    this.#isSettled = true
    this.#options.onSettled()
    this.#inFlight?.abort()
    this.#options.memoryBudget.release(this.#reservedBytes)
    this.#decompressor?.destroy()
    this.#decompressionLimit?.release()
  }
}

/** Bytes of one answer that are read in one turn of the event loop: 1.5 ms. */
const maxBytesPerTurn = 786_432

const responseTooLarge = ({ source, name: upstream }: Target): Failure => refuse('tooLarge', { source, upstream, retryElsewhere: true })

/** A part that looks whole: Nethermind, streaming a result, says only behind it that the query was too much (`_streamStatus`). */
const truncatedResult = (target: Target, status: string): Failure => {
  const meaning = categoryByStreamStatus.get(status)
  return copyReply(upstreamFailure(target, `the result ends early (${status})`), { category: meaning })
}

const categoryByStreamStatus: ReadonlyMap<string, ErrorCategory> = new Map([
  ['truncated', 'tooMany'],
  ['timeout', 'timeout'],
])
