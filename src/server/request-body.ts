import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type Koa from 'koa'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { handlingBytes, overloaded } from '../services/memory-budget.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import { openOnce } from '../util/async.ts'
import { callerConnectionOf } from './caller-connection.ts'
import type { RpcServices } from './rpc-services.ts'

/** What bodies are read with. */
type BodyServices = Pick<RpcServices, 'limits' | 'scheduler'>

/**
 * The whole body, its bytes reserved in `memory`; a failure as soon as it is known to be too long, or does not fit. Undefined when the
 * caller disconnected before it was complete. Read here, as with koa-bodyparser a cached call takes 1.24 to 1.41 times the CPU.
 */
export const readBody = (
  services: BodyServices,
  req: IncomingMessage,
  res: ServerResponse,
  memory: CallerMemory,
): Promise<Buffer | Failure | undefined> => {
  if (req.destroyed) return Promise.resolve(undefined) // while its key was looked up: no event would come
  const { headers } = req
  const refusal = checkBodyLength(Number(headers['content-length'] ?? 0), services.limits.body, memory)
  if (refusal !== undefined) return Promise.resolve(refusal)
  if (headers.expect !== undefined && continuePattern.test(headers.expect) && req.httpVersionMinor > 0) res.writeContinue()
  return new Promise(resolve => {
    const body = new BodyReader(services, req.socket, memory)
    req.on('data', (chunk: Buffer) => {
      const failure = body.read(chunk)
      if (failure !== undefined) resolve(failure)
    })
    req.on('end', () => resolve(body.bytes))
    // Node.js takes 0.4 us for a promise that is resolved twice.
    req.on('close', () => {
      if (!req.readableEnded) resolve(undefined)
    })
  })
}

const jsonContentType = /^application\/json(?:-?rpc|request)?\s*(?:;|$)/i

export const checkContentType = ({ headers }: IncomingMessage): Failure | undefined => {
  const encoding = headers['content-encoding'] ?? ''
  if (encoding !== '' && encoding.toLowerCase() !== 'identity')
    return refuse('contentType', { message: 'compressed requests are not accepted' })
  const type = headers['content-type']
  return type === 'application/json' || jsonContentType.test(type ?? '') ? undefined : refuse('contentType')
}

/** Shorter bodies are read before it is known whether there is room for them. */
const maxUncheckedBytes = 16_384

/** A refusal before any of the body is read is the cheapest. */
const checkBodyLength = (byteLength: number, maxBytes: number, memory: CallerMemory): Failure | undefined => {
  if (byteLength > maxBytes) return bodyTooLarge(maxBytes)
  if (!(byteLength > maxUncheckedBytes)) return undefined
  const neededBytes = byteLength + handlingBytes(byteLength)
  if (!memory.reserve(neededBytes)) return overloaded()
  memory.release(neededBytes)
  return undefined
}

/** A body may come in so many chunks of any length: one of a byte takes as long to read as a kilobyte, and is read with hundreds of others at once. */
const maxShortChunks = 1_024
/** In more chunks than that, they must have so many bytes on average. */
const minChunkBytes = 32

const chunksTooShort = refuse('malformed', { message: 'the body comes in too many short chunks' })

/** Chunks, and bytes, that take as long to read as a call takes to handle. */
const chunksPerUnit = 64
const readBytesPerUnit = 65_536

const continuePattern = /\b100-continue\b/i

const bodyTooLarge = (maxBytes: number): Failure => refuse('bodyTooLarge', { message: `the body is longer than ${maxBytes} bytes` })

const minCapacityBytes = 1_024

/** One for all: to make a buffer takes 0.2 us, even of no bytes. */
const noBytes: Buffer = Buffer.alloc(0)

/**
 * Reads a body in its turn: after each unit of work, the caller waits while its account has used its share of the time. A body in one chunk is
 * not copied. Further chunks are copied into one buffer, which doubles: a chunk of one byte would take 36 times its size by itself, and many
 * chunks would keep the garbage collector busy.
 */
class BodyReader {
  readonly #services: BodyServices
  readonly #socket: Socket
  readonly #memory: CallerMemory
  #buffer = noBytes
  #byteLength = 0
  #chunkCount = 0
  /** Parts of a unit since the last turn. */
  #unpaidUnits = 0
  #hasFailed = false

  constructor(services: BodyServices, socket: Socket, memory: CallerMemory) {
    this.#services = services
    this.#socket = socket
    this.#memory = memory
  }

  get bytes(): Buffer {
    return this.#buffer.length === this.#byteLength ? this.#buffer : this.#buffer.subarray(0, this.#byteLength)
  }

  /** A failure ends the body: its bytes are dropped, and those of further chunks. */
  read(chunk: Buffer): Failure | undefined {
    if (this.#hasFailed) return undefined
    const maxBytes = this.#services.limits.body
    this.#chunkCount += 1
    if (this.#byteLength + chunk.length > maxBytes) return this.#fail(bodyTooLarge(maxBytes))
    if (!this.#append(chunk, maxBytes)) return this.#fail(overloaded())
    if (this.#chunkCount > maxShortChunks && this.#byteLength < this.#chunkCount * minChunkBytes) {
      callerConnectionOf(this.#socket).stop()
      return this.#fail(chunksTooShort)
    }
    this.#unpaidUnits += 1 / chunksPerUnit + chunk.length / readBytesPerUnit
    if (this.#unpaidUnits >= 1) this.#takeTurn()
    return undefined
  }

  /** False when the memory budget has no room for it. */
  #append(chunk: Buffer, maxBytes: number): boolean {
    if (this.#byteLength === 0) {
      if (!this.#memory.reserve(chunk.length)) return false
      this.#buffer = chunk
    } else {
      const neededBytes = this.#byteLength + chunk.length
      if (neededBytes > this.#buffer.length && !this.#grow(neededBytes, maxBytes)) return false
      chunk.copy(this.#buffer, this.#byteLength)
    }
    this.#byteLength += chunk.length
    return true
  }

  #grow(neededBytes: number, maxBytes: number): boolean {
    const capacity = Math.min(maxBytes, Math.max(neededBytes, 2 * this.#buffer.length, minCapacityBytes))
    if (!this.#memory.reserve(capacity - this.#buffer.length)) return false
    const grown = Buffer.allocUnsafeSlow(capacity)
    this.#buffer.copy(grown, 0, 0, this.#byteLength)
    this.#buffer = grown
    return true
  }

  #fail(failure: Failure): Failure {
    this.#memory.release(this.#buffer.length)
    this.#hasFailed = true
    this.#buffer = noBytes
    return failure
  }

  #takeTurn(): void {
    const turn = this.#services.scheduler.enter(this.#memory.owner, Math.floor(this.#unpaidUnits))
    this.#unpaidUnits = 0
    // Not the request: Node would collect the chunks that have been read already, and a chunk of a byte takes a hundred.
    if (turn !== undefined) callerConnectionOf(this.#socket).pauseUntil(turn)
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

/** A caller that expects 100 (Continue) may never send the body. */
const isTooLongToDrain = ({ headers, socket }: IncomingMessage): boolean =>
  headers.expect !== undefined || Number(headers['content-length'] ?? 0) > maxDrainedBytes || callerConnectionOf(socket).isStopped

/**
 * Must the connection close with the response to this request, which needs no more of the body? Nothing more may be read from a stopped one, though
 * the body has ended. The length of chunks that still arrive is not known: past the bound of what is drained, a proxy that was not told that the
 * connection closes would have sent the next request of another caller on it, without an answer.
 */
export const closesAfterRefusal = (req: IncomingMessage): boolean =>
  req.complete ? callerConnectionOf(req.socket).isStopped : isTooLongToDrain(req) || req.headers['transfer-encoding'] !== undefined

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
    if (drainedBytes <= 2 * maxDrainedBytes) return
    callerConnectionOf(req.socket).stop()
    req.socket.end() // the response may not have said that the connection closes
  })
  req.once('end', () => {
    clearTimeout(timer)
    onEnd()
    // The end of the body was among what had been read when the connection stopped.
    if (callerConnectionOf(req.socket).isStopped) req.socket.destroySoon()
  })
}

/** Reads the JSON bodies of the admin listener and the dashboard. koa-bodyparser takes 40 ms of CPU to load, which is spent with the first request that may have a body. */
export const parseJsonBody = (maxSize = '64kb'): Koa.Middleware => {
  const loadParser = openOnce(async () => (await import('koa-bodyparser')).default({ enableTypes: ['json'], jsonLimit: maxSize }))
  return async (ctx, next) => (ctx.method === 'GET' || ctx.method === 'HEAD' ? next() : (await loadParser())(ctx, next))
}
