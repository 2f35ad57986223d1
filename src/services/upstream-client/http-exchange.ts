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
import type {
  InFlightRequest,
  RequestId,
  ResponseHandler,
  ResponseHeaders,
  UpstreamSockets,
  UpstreamTransport,
} from './upstream-transport.ts'
import type { ReadTurns } from './read-turns.ts'
import type { RequestDeadline, RequestOptions } from './request-deadline.ts'
import { Decompressor, networkFailure, readResponseHead, tooManyCompressed, truncatedResult, upstreamFailure } from './response-head.ts'
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
  newRequestId(): RequestId
}

/** A request to a node, and what it holds until it has ended. */
export interface PendingRequest {
  readonly target: Target
  readonly request: Request
  readonly options: RequestOptions
  readonly transport: UpstreamTransport
  readonly endpoint: Endpoint
  readonly deadline: RequestDeadline
  /** Where the target has one, and the request is held to it. */
  readonly concurrency: ConcurrencyLimit | undefined
  /** The account that it counts for there. */
  readonly owner: string
}

/** Sends an admitted request and reads the response to its end, or until it is known to be invalid. Rejects only because of a bug. */
export const sendRequest = (context: ExchangeContext, pending: PendingRequest): Promise<Reply> =>
  new Promise((resolve, reject) => new HttpExchange(context, pending, resolve, reject).start())

/** Reads the response from events: without a stream, and without any promise but the one it settles. */
class HttpExchange implements ResponseHandler {
  readonly #context: ExchangeContext
  readonly #pending: PendingRequest
  readonly #id: RequestId
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

  constructor(context: ExchangeContext, pending: PendingRequest, resolve: (reply: Reply) => void, reject: (bug: unknown) => void) {
    this.#context = context
    this.#pending = pending
    this.#id = context.newRequestId()
    this.#resolve = resolve
    this.#reject = reject
  }

  start(): void {
    const { request, transport, endpoint, options, deadline } = this.#pending
    this.#watchDeadline()
    if (this.#isSettled) return
    try {
      deadline.startProbe()
      const body = serializeRequest(this.#id.digits, request)
      this.#inFlight = transport.send({ id: this.#id.value, endpoint, body, idempotent: options.idempotent === true }, this)
    } catch (bug) {
      this.#fail(bug)
    }
  }

  onStart(): void {
    this.#pending.deadline.recordSent()
  }

  onHeaders(status: number, headers: ResponseHeaders): void {
    const { target, options } = this.#pending
    try {
      const head = readResponseHead(status, headers, { target, clock: this.#context.clock })
      if (head.failure !== undefined) return this.#settle(head.failure)
      this.#isTooLarge = (head.contentLength ?? 0) > options.maxBytes
      this.#fallbackFailure = head.fallbackFailure
      this.#discardsResult = head.discardsResult === true
      this.#parser = new ResponseParser(this.#id.digits, this.#isTooLarge ? undefined : head.contentLength)
      if (head.decoder !== undefined && this.#inFlight !== undefined) {
        this.#startDecompression(head.decoder, this.#inFlight).catch((bug: unknown) => this.#fail(bug))
      }
    } catch (bug) {
      this.#fail(bug)
    }
  }

  onData(bytes: Buffer, isTransient?: boolean): void {
    const decompressor = this.#decompressor
    try {
      this.#pending.deadline.recordBytes(bytes.length)
      if (decompressor !== undefined) return decompressor.write(isTransient === true ? Buffer.from(bytes) : bytes)
      this.#receive(bytes, isTransient)
      this.#yieldToOthers(bytes.length)
    } catch (bug) {
      this.#fail(bug)
    }
  }

  onEnd(): void {
    if (this.#decompressor === undefined) this.#complete()
    else this.#decompressor.end()
  }

  /** Whatever the HTTP client or the decompression reports is due to the node, except for the limits of this process. */
  onError(error: unknown): void {
    if (!this.#isSettled) this.#settle(this.#fallbackFailure ?? networkFailure(error, this.#pending.target, this.#context.sockets))
  }

  /** What this code throws is a bug of the gateway: it must not reach the HTTP client, which would report it as an error of the request. */
  #fail(bug: unknown): void {
    if (!this.#isSettled) this.#cleanUp()
    this.#reject(bug)
  }

  #receive(bytes: Buffer, isTransient?: boolean): void {
    const { target, options } = this.#pending
    const { maxBytes, observer } = options
    const parser = this.#parser
    if (parser === undefined || this.#isSettled) return
    const allowedBytes = maxBytes - parser.byteLength
    if (bytes.length > allowedBytes) {
      parser.push(bytes.subarray(0, allowedBytes), isTransient)
      return this.#settle(this.#tooLarge(parser))
    }
    if (!this.#context.memory.reserve(bytes.length, this.#reservedBytes)) return this.#settle(overloaded({ upstream: target.name }))
    this.#reservedBytes += bytes.length
    observer?.push(bytes)
    if (!parser.push(bytes, isTransient)) this.#complete()
    else if (this.#isTooLarge && parser.hasBegunResult) this.#settle(this.#tooLarge(parser))
  }

  /** A result may be as long as a caller makes it; what comes before a result is due to the node. */
  #tooLarge(parser: ResponseParser): Failure {
    const { target } = this.#pending
    if (this.#fallbackFailure !== undefined) return this.#fallbackFailure
    if (!parser.hasBegunResult) return upstreamFailure(target, 'response too large, without a result')
    return refuse('tooLarge', { source: target.source, upstream: target.name })
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
    try {
      const response = this.#parser?.finish()
      this.#settle(response === undefined ? upstreamFailure(this.#pending.target, 'no response headers') : this.#toReply(response))
    } catch (bug) {
      this.#fail(bug)
    }
  }

  #toReply(response: ParsedResponse): Reply {
    const { target } = this.#pending
    const { source, name: upstream } = target
    const { redactor } = this.#context
    if (this.#discardsResult && this.#fallbackFailure !== undefined)
      return copyReply(this.#fallbackFailure, { nodeError: response.kind === 'error' ? redactor.redactError(response.error) : undefined })
    switch (response.kind) {
      case 'error':
        return { kind: 'node', error: redactor.redactError(response.error), fault: 'caller', status: 200, source, upstream }
      case 'invalidResponse':
        return this.#fallbackFailure ?? upstreamFailure(target, response.reason)
      case 'result':
        return response.streamStatus !== undefined
          ? truncatedResult(target, response.streamStatus)
          : { result: response.result, count: response.count, source, upstream }
    }
  }

  /** Within the limit on concurrent decompressions; no byte comes before it admits this one. */
  async #startDecompression({ kind, createStream }: ContentDecoder, inFlight: InFlightRequest): Promise<void> {
    const { deadline, target } = this.#pending
    const limit = this.#context.decompressionLimits[kind]
    inFlight.pause()
    const isAcquired = await limit.acquire(deadline)
    this.#watchDeadline()
    if (!isAcquired) return this.#settle(tooManyCompressed(target))
    if (this.#isSettled) return limit.release()
    this.#decompressor = new Decompressor(createStream(), inFlight, {
      onData: bytes => {
        try {
          this.#receive(bytes)
        } catch (bug) {
          this.#fail(bug)
        }
      },
      onEnd: () => this.#complete(),
      onError: error => this.onError(error),
    })
    this.#decompressionLimit = limit
    inFlight.resume()
  }

  #watchDeadline(): void {
    const { deadline, target } = this.#pending
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
    const { deadline, concurrency, owner } = this.#pending
    deadline.stop()
    concurrency?.release(owner)
    this.#inFlight?.abort()
    this.#context.memory.release(this.#reservedBytes)
    this.#decompressor?.destroy()
    this.#decompressionLimit?.release()
  }
}
