import type { Request, Target } from '../../plugin/call.ts'
import { copyReply, isFailure, refuse } from '../../plugin/reply.ts'
import type { Failure, Reply } from '../../plugin/reply.ts'
import { ResponseParser, serializeRequest } from '../../json-rpc/parse-response.ts'
import type { ParsedResponse } from '../../json-rpc/parse-response.ts'
import type { Clock } from '../clock.ts'
import { overloaded } from '../memory-budget.ts'
import type { ResponseMemory } from '../memory-budget.ts'
import type { ConcurrencyLimit } from './concurrency-limit.ts'
import type { Endpoint } from './endpoint.ts'
import type { InFlightRequest, ResponseHandler, ResponseHeaders, UpstreamSockets, UpstreamTransport } from './http-connection.ts'
import type { ReadTurns } from './read-turns.ts'
import type { RequestDeadline, RequestOptions } from './request-deadline.ts'
import { Decompressor, networkFailure, readResponseHead, truncatedResult, upstreamFailure } from './response-head.ts'
import type { ContentDecoder } from './response-head.ts'
import type { SecretRedactor } from './secret-redactor.ts'

/** What all requests of a client share: an object of its own, as spreading it into the options of each request took 7 us a call. */
export interface ExchangeContext {
  readonly clock: Clock
  readonly memory: ResponseMemory
  readonly readTurns: ReadTurns
  readonly decompressionLimits: Readonly<Record<ContentDecoder['kind'], ConcurrencyLimit>>
  readonly redactor: SecretRedactor
  readonly sockets: UpstreamSockets
}

/** What one request is sent and its response read with. */
interface ExchangeOptions {
  /** The JSON-RPC id of the request. */
  readonly id: number
  readonly request: Request
  readonly target: Target
  readonly transport: UpstreamTransport
  readonly endpoint: Endpoint
  /** Most bytes of the response, after decompression. */
  readonly maxBytes: number
  readonly idempotent: boolean
  readonly observer: RequestOptions['observer']
  readonly deadline: RequestDeadline
  /** Called once, when the exchange has ended. */
  onSettled(): void
}

/** Sends a request and reads the response to its end, or until it is known to be invalid. Rejects only because of a bug. */
export const sendRequest = (context: ExchangeContext, options: ExchangeOptions): Promise<Reply> =>
  new Promise((resolve, reject) => new HttpExchange(context, options, resolve, reject).start())

/** Reads the response from events: without a stream, and without any promise but the one it settles. */
class HttpExchange implements ResponseHandler {
  readonly #context: ExchangeContext
  readonly #options: ExchangeOptions
  readonly #resolve: (reply: Reply) => void
  readonly #reject: (bug: unknown) => void
  #inFlight: InFlightRequest | undefined
  #parser: ResponseParser | undefined
  #decompressor: Decompressor | undefined
  /** Released when the decompression ends. */
  #decompressionLimit: ConcurrencyLimit | undefined
  /** The failure when the body is no JSON-RPC response. */
  #fallbackFailure: Failure | undefined
  #discardsResult = false
  /** The response is longer than `maxBytes`, by its headers. It is read until its result begins. */
  #isTooLarge = false
  #reservedBytes = 0
  #isSettled = false

  constructor(context: ExchangeContext, options: ExchangeOptions, resolve: (reply: Reply) => void, reject: (bug: unknown) => void) {
    this.#context = context
    this.#options = options
    this.#resolve = resolve
    this.#reject = reject
  }

  start(): void {
    const { id, request, transport, endpoint, idempotent, deadline } = this.#options
    this.#watchDeadline()
    if (this.#isSettled) return
    this.#run(() => {
      deadline.startProbe()
      this.#inFlight = transport.send({ id, endpoint, body: serializeRequest(id, request), idempotent }, this)
    })
  }

  onStart(): void {
    this.#options.deadline.recordSent()
  }

  onHeaders(status: number, headers: ResponseHeaders): void {
    this.#run(() => this.#readHead(status, headers))
  }

  onData(bytes: Buffer, isTransient?: boolean): void {
    this.#run(() => this.#receiveEncoded(bytes, isTransient))
  }

  onEnd(): void {
    this.#run(() => (this.#decompressor === undefined ? this.#complete() : this.#decompressor.end()))
  }

  /** Whatever the HTTP client or the decompression reports is due to the node, except for the limits of this process. */
  onError(error: unknown): void {
    if (!this.#isSettled) this.#settle(this.#fallbackFailure ?? networkFailure(error, this.#options.target, this.#context.sockets))
  }

  /** What this code throws is a bug of the gateway: it must not reach the HTTP client, which would report it as an error of the request. */
  #run(step: () => void): void {
    try {
      step()
    } catch (bug) {
      this.#fail(bug)
    }
  }

  #fail(bug: unknown): void {
    if (!this.#isSettled) this.#cleanUp()
    this.#reject(bug)
  }

  #readHead(status: number, headers: ResponseHeaders): void {
    const { target, maxBytes } = this.#options
    const head = readResponseHead(status, headers, { target, clock: this.#context.clock })
    if (head.failure !== undefined) return this.#settle(head.failure)
    this.#isTooLarge = (head.contentLength ?? 0) > maxBytes
    this.#fallbackFailure = head.fallbackFailure
    this.#discardsResult = head.discardsResult === true
    this.#parser = new ResponseParser(this.#isTooLarge ? undefined : head.contentLength)
    if (head.decoder !== undefined && this.#inFlight !== undefined) {
      this.#startDecompression(head.decoder, this.#inFlight).catch((bug: unknown) => this.#fail(bug))
    }
  }

  #receiveEncoded(bytes: Buffer, isTransient?: boolean): void {
    this.#options.deadline.recordBytes(bytes.length)
    if (this.#decompressor !== undefined) return this.#decompressor.write(isTransient === true ? Buffer.from(bytes) : bytes)
    this.#receive(bytes, isTransient)
    this.#yieldToOthers(bytes.length)
  }

  #receive(bytes: Buffer, isTransient?: boolean): void {
    const { id, target, maxBytes } = this.#options
    const parser = this.#parser
    if (parser === undefined || this.#isSettled) return
    const allowedBytes = maxBytes - parser.byteLength
    if (bytes.length > allowedBytes) {
      parser.push(bytes.subarray(0, allowedBytes), isTransient)
      return this.#settle(this.#tooLarge(parser))
    }
    if (!this.#context.memory.reserve(bytes.length, this.#reservedBytes)) return this.#settle(overloaded({ upstream: target.name }))
    this.#reservedBytes += bytes.length
    this.#options.observer?.push(bytes)
    if (!parser.push(bytes, isTransient)) this.#complete()
    else if (this.#isTooLarge && parser.hasBegunResult(id)) this.#settle(this.#tooLarge(parser))
  }

  /** A result may be as long as a caller makes it; what comes before a result is due to the node. */
  #tooLarge(parser: ResponseParser): Failure {
    const { id, target } = this.#options
    if (this.#fallbackFailure !== undefined) return this.#fallbackFailure
    return parser.hasBegunResult(id)
      ? refuse('tooLarge', { source: target.source, upstream: target.name })
      : upstreamFailure(target, 'response too large, without a result')
  }

  /** Pauses until it is the turn of this response. */
  #yieldToOthers(length: number): void {
    const { readTurns } = this.#context
    if (readTurns.record(length, this.#reservedBytes) || this.#isSettled) return
    this.#inFlight?.pause()
    readTurns.wait(this.#reservedBytes, () => this.#inFlight?.resume())
  }

  #complete(): void {
    if (this.#isSettled) return
    const response = this.#parser?.finish(this.#options.id)
    this.#settle(response === undefined ? upstreamFailure(this.#options.target, 'no response headers') : this.#toReply(response))
  }

  #toReply(response: ParsedResponse): Reply {
    const { target } = this.#options
    const { redactor } = this.#context
    if (this.#discardsResult && this.#fallbackFailure !== undefined)
      return copyReply(this.#fallbackFailure, { nodeError: response.kind === 'error' ? redactor.redactError(response.error) : undefined })
    switch (response.kind) {
      case 'error':
        return {
          source: target.source,
          upstream: target.name,
          kind: 'node',
          error: redactor.redactError(response.error),
          fault: 'caller',
          status: 200,
        }
      case 'invalidResponse':
        return this.#fallbackFailure ?? upstreamFailure(target, response.reason)
      case 'result':
        return response.streamStatus !== undefined
          ? truncatedResult(target, response.streamStatus)
          : { result: response.result, count: response.count, source: target.source, upstream: target.name }
    }
  }

  /** Within the limit on concurrent decompressions; no byte comes before it admits this one. */
  async #startDecompression({ kind, createStream }: ContentDecoder, inFlight: InFlightRequest): Promise<void> {
    const { deadline, target } = this.#options
    const limit = this.#context.decompressionLimits[kind]
    inFlight.pause()
    const isAcquired = await limit.acquire(deadline)
    this.#watchDeadline()
    if (!isAcquired)
      return this.#settle(
        copyReply(upstreamFailure(target, 'too many compressed responses at once'), { retryElsewhere: true, retryAfter: 1 }),
      )
    if (this.#isSettled) return limit.release()
    this.#decompressor = new Decompressor(createStream(), inFlight, {
      onData: bytes => this.#run(() => this.#receive(bytes)),
      onEnd: () => this.#run(() => this.#complete()),
      onError: error => this.onError(error),
    })
    this.#decompressionLimit = limit
    inFlight.resume()
  }

  #watchDeadline(): void {
    const { deadline, target } = this.#options
    const onCancel = () => this.#settle(deadline.toFailure(target) ?? upstreamFailure(target, 'request canceled'))
    deadline.onCancel = onCancel
    if (deadline.isCanceled) onCancel()
  }

  #settle(reply: Reply): void {
    if (this.#isSettled) return
    if (isFailure(reply)) this.#parser?.discard()
    this.#cleanUp()
    this.#resolve(reply)
  }

  #cleanUp(): void {
    this.#isSettled = true
    this.#options.onSettled()
    this.#inFlight?.abort()
    this.#context.memory.release(this.#reservedBytes)
    this.#decompressor?.destroy()
    this.#decompressionLimit?.release()
  }
}
