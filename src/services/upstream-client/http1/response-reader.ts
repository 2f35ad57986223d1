import type { ResponseHandler } from '../http-connection.ts'
import { ChunkedBody } from './chunked-body.ts'
import { InvalidResponseError, parseHead } from './parse-head.ts'
import type { ResponseHead } from './parse-head.ts'

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
  /** A head of which only a part has come. */
  #partialHead: Buffer | undefined
  #informationalCount = 0
  /** The rest of a body of known length; Infinity where the body ends with the connection. Undefined before the head has come. */
  #remainingBytes: number | undefined
  #chunkedBody: ChunkedBody | undefined

  constructor(events: ResponseEvents) {
    this.#events = events
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
    const head = parseHead(bytes.toString('latin1', start, end))
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
