import type { IncomingMessage, ServerResponse } from 'node:http'
import type Koa from 'koa'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { overloaded } from '../services/memory-budget.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import { httpConnectionOf } from './request-tracking.ts'

/**
 * The whole body, its bytes reserved in `memory`; a failure as soon as it is known to be too long, or does not fit. Undefined when the
 * caller disconnected before it was complete. Read here, as with koa-bodyparser a cached call takes 1.24 to 1.41 times the CPU.
 */
export const readBody = (
  req: IncomingMessage,
  res: ServerResponse,
  maxBytes: number,
  memory: CallerMemory,
): Promise<Buffer | Failure | undefined> => {
  const { headers } = req
  if (Number(headers['content-length'] ?? 0) > maxBytes) return Promise.resolve(bodyTooLarge(maxBytes))
  if (headers.expect !== undefined && continuePattern.test(headers.expect) && req.httpVersionMinor > 0) res.writeContinue()
  return new Promise(resolve => {
    const body = new BodyBuffer(memory)
    let chunkCount = 0
    req.on('data', (chunk: Buffer) => {
      if (body.hasFailed) return
      chunkCount += 1
      if (body.byteLength + chunk.length > maxBytes) resolve(body.fail(bodyTooLarge(maxBytes)))
      else if (!body.push(chunk, maxBytes)) resolve(body.fail(overloaded()))
      else if (chunkCount > maxShortChunks && body.byteLength < chunkCount * minChunkBytes) resolve(body.fail(chunksTooShort))
    })
    req.on('end', () => resolve(body.bytes))
    req.on('close', () => resolve(undefined))
  })
}

/** A body may come in so many chunks of any length: one of a byte takes as long to read as a kilobyte, and is read with hundreds of others at once. */
const maxShortChunks = 1_024
/** In more chunks than that, they must have so many bytes on average. */
const minChunkBytes = 32

const chunksTooShort = refuse('malformed', { message: 'the body comes in too many short chunks' })

const continuePattern = /\b100-continue\b/i

const bodyTooLarge = (maxBytes: number): Failure => refuse('bodyTooLarge', { message: `the body is longer than ${maxBytes} bytes` })

const minCapacityBytes = 1_024

/**
 * The bytes of a body. A body in one chunk is not copied. Further chunks are copied into one buffer, which doubles: a chunk
 * of one byte would take 36 times its size by itself, and many chunks would keep the garbage collector busy.
 */
class BodyBuffer {
  readonly #memory: CallerMemory
  #buffer: Buffer = Buffer.alloc(0)
  hasFailed = false
  byteLength = 0

  constructor(memory: CallerMemory) {
    this.#memory = memory
  }

  get bytes(): Buffer {
    return this.#buffer.length === this.byteLength ? this.#buffer : this.#buffer.subarray(0, this.byteLength)
  }

  /** False when the memory budget has no room for it. */
  push(chunk: Buffer, maxBytes: number): boolean {
    if (this.byteLength === 0) {
      if (!this.#memory.reserve(chunk.length)) return false
      this.#buffer = chunk
    } else {
      const neededBytes = this.byteLength + chunk.length
      if (neededBytes > this.#buffer.length && !this.#grow(neededBytes, maxBytes)) return false
      chunk.copy(this.#buffer, this.byteLength)
    }
    this.byteLength += chunk.length
    return true
  }

  /** Drops the bytes; no chunk may follow. */
  fail(failure: Failure): Failure {
    this.#memory.release(this.#buffer.length)
    this.hasFailed = true
    this.#buffer = Buffer.alloc(0)
    return failure
  }

  #grow(neededBytes: number, maxBytes: number): boolean {
    const capacity = Math.min(maxBytes, Math.max(neededBytes, 2 * this.#buffer.length, minCapacityBytes))
    if (!this.#memory.reserve(capacity - this.#buffer.length)) return false
    const grown = Buffer.allocUnsafeSlow(capacity)
    this.#buffer.copy(grown, 0, 0, this.byteLength)
    this.#buffer = grown
    return true
  }
}

/** Bytes of a refused body that are read and dropped, so that the connection takes the next request (Go's net/http reads as many). */
const maxDrainedBytes = 262_144
/** What a chunk counts besides its length. */
const chunkOverheadBytes = 128
/** The caller has so long to send the rest of a refused body, and to read the refusal of a longer one before the connection closes. */
const drainTimeoutMs = 2_000

/** Does the body of the request still arrive? */
export const isReceivingBody = ({ complete, headers }: IncomingMessage): boolean =>
  !complete && (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0)

/** The rest of a body that nobody needs is not read. */
export const closeOnUnreadBody: Koa.Middleware = async (ctx, next) => {
  await next()
  if (isReceivingBody(ctx.req)) ctx.set('Connection', 'close')
}

/** Must the connection close after a response that comes before the body? A caller that expects 100 (Continue) may never send it. */
export const isTooLongToDrain = ({ headers }: IncomingMessage): boolean =>
  headers.expect !== undefined || Number(headers['content-length'] ?? 0) > maxDrainedBytes

/**
 * Reads and drops the rest of the body of a request that has been responded to, then calls `onEnd`. Past a bound nothing more is
 * read; the connection closes a while later, as a connection that closes with unread bytes is reset, and callers lose the response.
 */
export const drainRequest = (req: IncomingMessage, onEnd: () => void): void => {
  const timer = setTimeout(() => req.socket.destroy(), drainTimeoutMs)
  req.once('close', () => clearTimeout(timer))
  if (isTooLongToDrain(req)) return void req.pause()
  let drainedBytes = 0
  req.on('data', (chunk: Buffer) => {
    drainedBytes += chunk.length + chunkOverheadBytes
    // What has been read already is still dropped here: a paused request would collect it.
    if (drainedBytes > maxDrainedBytes) httpConnectionOf(req.socket).stop()
  })
  req.once('end', () => {
    clearTimeout(timer)
    onEnd()
  })
}
