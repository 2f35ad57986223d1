import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { bodyToBuffer, bodyToLatin1 } from '../json-rpc/handle-message.ts'
import type { ResponseBody } from '../json-rpc/handle-message.ts'
import type { RpcServices } from './rpc-services.ts'

/** A response up to this length is one frame, written as one text. A longer one is reserved in the memory budget of all callers. */
const maxSingleFrameBytes = 16_384
/** Bytes that the socket may buffer; while it buffers more, responses are queued here. */
const maxSocketBufferBytes = 262_144
/** Queued bytes above which a caller that reads nothing for the send timeout is disconnected. */
const slowReaderBytes = 8 << 20
/** Queued bytes above which no further long response is queued. */
const maxQueuedBytes = 40 << 20
/** Long responses that were not queued since the caller last read; past this number the caller is disconnected at once. */
const maxRefusedResponses = 10

/** Queued responses, however short; at this number reading from the WebSocket pauses. */
const maxQueuedResponses = 200
/** Frames that are sent in one turn, while the system takes them at once. */
const framesPerTurn = 8

/** The services that a send queue uses. */
export interface WsSendQueueOptions extends Pick<RpcServices, 'memoryBudget' | 'activeRequests' | 'hintGc'> {
  /** How long a caller with too many queued bytes may read nothing, in ms of the system's clock. */
  readonly sendTimeoutMs: number
  /** Called when the caller has read, and fewer bytes are queued. */
  onRead(): void
  /** Terminates a WebSocket whose caller does not read. */
  onSlowReader(): void
}

/**
 * The responses of one WebSocket, in order of sending. A short response is written to the socket at once. A long one is written
 * frame by frame, as its caller reads; later responses are queued behind it.
 */
export class WsSendQueue {
  readonly #socket: WebSocket
  readonly #stream: Socket
  readonly #options: WsSendQueueOptions
  readonly #queue: ResponseBody[] = []
  /** Frames that remain of the first response in the queue, once it has been begun; in order from the end. */
  #remainingFrames: Frame[] | undefined
  #remainingBytes = 0
  /** Bytes of all other responses in the queue. */
  #queuedBytes = 0
  /** Responses whose bytes are reserved in the memory budget, until they are sent. */
  readonly #reserved = new Set<ResponseBody>()
  #drainCount = 0
  #refusedCount = 0
  #sendTimer: NodeJS.Timeout | undefined
  #pendingClose: { readonly code: number; readonly reason: string } | undefined

  /** `stream` is what `socket` writes to. */
  constructor(socket: WebSocket, stream: Socket, options: WsSendQueueOptions) {
    this.#socket = socket
    this.#stream = stream
    this.#options = options
    stream.on('drain', () => this.#onDrain())
    socket.on('close', () => this.discard())
  }

  /** Are so many bytes or responses queued behind the current one that no more calls should be read? */
  get needsDrain(): boolean {
    return this.#queuedBytes > slowReaderBytes || this.#queue.length >= maxQueuedResponses
  }

  /** False, and nothing is sent, when too many bytes are queued for this caller or for all callers. Short responses are always accepted. */
  send(body: ResponseBody): boolean {
    if (body.byteLength <= maxSingleFrameBytes && this.#queue.length === 0 && this.#stream.writableLength < maxSocketBufferBytes) {
      this.#stream.write(encodeTextFrame(bodyToLatin1(body)), 'latin1')
      return true
    }
    return this.#pendingClose !== undefined || this.#enqueue(body)
  }

  /** Closes the WebSocket once all queued responses are sent. Nothing is sent after it. */
  close(code: number, reason: string): void {
    this.#pendingClose ??= { code, reason }
    if (this.#queue.length === 0) this.#socket.close(code, reason)
    else this.#updateSendTimer()
  }

  /** Drops all queued responses: nothing more is sent. */
  discard(): void {
    this.#queue.length = this.#remainingBytes = this.#queuedBytes = 0
    this.#updateSendTimer()
    for (const body of this.#reserved) this.#release(body)
  }

  #enqueue(body: ResponseBody): boolean {
    if (body.byteLength > maxSingleFrameBytes && !(this.#fitsQueue(body) && this.#reserve(body))) return false
    this.#queuedBytes += body.byteLength
    if (this.#queue.push(body) === 1) this.#flush()
    this.#updateSendTimer()
    return true
  }

  #fitsQueue({ byteLength }: ResponseBody): boolean {
    const waitingBytes = this.#remainingBytes + this.#queuedBytes
    if (waitingBytes <= slowReaderBytes || waitingBytes + byteLength <= maxQueuedBytes) return true
    this.#refusedCount += 1
    if (this.#refusedCount > maxRefusedResponses) this.#options.onSlowReader()
    return false
  }

  /** A caller that reads as fast as this writes would block all others; they get a turn each `framesPerTurn` frames. */
  #onDrain(): void {
    this.#sendTimer?.refresh()
    this.#refusedCount = 0
    this.#drainCount += 1
    if (this.#drainCount % framesPerTurn === 0) setImmediate(() => this.#resume())
    else this.#resume()
  }

  #resume(): void {
    this.#flush()
    this.#updateSendTimer()
    this.#options.onRead()
  }

  /** Writes until the socket's buffer is full. */
  #flush(): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    this.#stream.cork()
    while (this.#queue.length > 0 && !this.#stream.writableNeedDrain) this.#writeFrame(this.#queue[0]!)
    this.#stream.uncork()
    if (this.#queue.length === 0 && this.#pendingClose !== undefined) this.close(this.#pendingClose.code, this.#pendingClose.reason)
  }

  #writeFrame(body: ResponseBody): void {
    if (this.#remainingFrames === undefined) this.#queuedBytes -= body.byteLength
    if (body.byteLength <= maxSingleFrameBytes) {
      this.#queue.shift()
      this.#stream.write(encodeTextFrame(bodyToLatin1(body)), 'latin1')
      return
    }
    this.#remainingFrames ??= this.#startFrames(body)
    const { header, payload } = this.#remainingFrames.pop()!
    this.#remainingBytes -= payload.length
    this.#stream.write(header)
    if (this.#remainingFrames.length > 0) return void this.#stream.write(payload)
    this.#remainingFrames = undefined
    this.#queue.shift()
    // Until then a part of the response keeps the memory of the whole.
    this.#stream.write(payload, () => this.#release(body))
  }

  #startFrames(body: ResponseBody): Frame[] {
    this.#remainingBytes = body.byteLength
    return splitIntoFrames(body).toReversed()
  }

  /** A caller with many queued bytes, or one that is to be closed, must keep reading. */
  #updateSendTimer(): void {
    const maxBytes = this.#pendingClose === undefined ? slowReaderBytes : 0
    if (this.#remainingBytes + this.#queuedBytes > maxBytes) {
      this.#sendTimer ??= setTimeout(() => this.#options.onSlowReader(), this.#options.sendTimeoutMs)
    } else {
      clearTimeout(this.#sendTimer)
      this.#sendTimer = undefined
    }
  }

  #reserve(body: ResponseBody): boolean {
    const { memoryBudget, activeRequests } = this.#options
    if (!memoryBudget.reserve(body.byteLength)) return false
    activeRequests.begin()
    this.#reserved.add(body)
    return true
  }

  #release(body: ResponseBody): void {
    const { memoryBudget, activeRequests, hintGc } = this.#options
    if (!this.#reserved.delete(body)) return
    memoryBudget.release(body.byteLength)
    hintGc(body.byteLength)
    activeRequests.end()
  }
}

/**
 * A whole message as one frame of a server (RFC 6455, 5.2), one character per byte, up to 65,535 of them. It is written to
 * the socket directly: ws would copy the text into a buffer, and write header and payload apart. With the Sender of ws a
 * cached call over WebSocket takes 1.12 to 1.16 times the CPU.
 */
const encodeTextFrame = (text: string): string => {
  const { length } = text
  const size = length < 126 ? String.fromCharCode(length) : String.fromCharCode(126, length >> 8, length & 0xff)
  return `\x81${size}${text}`
}

/** Most bytes of a frame. */
const maxFrameBytes = 131_072

/** One frame of a long message. Header and payload go out together; between frames only pings, pongs and the close may be sent. */
interface Frame {
  readonly header: Uint8Array
  readonly payload: Uint8Array
}

/** A text of any length as frames of its chunks and of parts of these, without a copy. */
const splitIntoFrames = (body: ResponseBody): readonly Frame[] => {
  const parts = body.byteLength <= maxFrameBytes ? [bodyToBuffer(body)] : body.chunks.flatMap(splitChunk)
  const last = parts.length - 1
  return parts.map((payload, i) => ({ header: encodeFrameHeader(payload.length, { isFirst: i === 0, isLast: i === last }), payload }))
}

const splitChunk = (chunk: string | Uint8Array): Uint8Array[] => {
  const bytes = typeof chunk === 'string' ? Buffer.from(chunk, 'latin1') : chunk
  const parts: Uint8Array[] = []
  for (let at = 0; at < bytes.length; at += maxFrameBytes) parts.push(bytes.subarray(at, at + maxFrameBytes))
  return parts
}

const encodeFrameHeader = (length: number, { isFirst, isLast }: { isFirst: boolean; isLast: boolean }): Uint8Array => {
  const start = (isFirst ? 0x01 : 0x00) | (isLast ? 0x80 : 0x00)
  if (length < 126) return Buffer.of(start, length)
  if (length < 65_536) return Buffer.of(start, 126, length >> 8, length & 0xff)
  return Buffer.of(start, 127, 0, 0, 0, 0, length >>> 24, (length >> 16) & 0xff, (length >> 8) & 0xff, length & 0xff)
}
