import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { bodyToBuffer, bodyToLatin1 } from '../json-rpc/handle-message.ts'
import type { ResponseBody } from '../json-rpc/handle-message.ts'
import type { RpcServices } from './rpc-services.ts'

/** Up to here an answer is one frame, written as one text. What is longer counts for the room of all callers. */
const maxSingleFrameBytes = 16_384
/** Bytes that the socket may hold; while it holds more, answers wait here. */
const maxSocketBufferBytes = 262_144
/** Bytes that wait for a caller. Past `slow` it is given up when it reads nothing for a while; past `most` nothing long is taken. */
const slowReaderBytes = 8 << 20
const maxQueuedBytes = 40 << 20
/** Answers that were not taken since the caller last read; past it the caller is given up at once. */
const maxRefusedResponses = 10

/** Answers that wait for a caller, however short; past it the socket is read no further for a while. */
const maxQueuedResponses = 200
/** Frames that are sent in one go, while the system takes them at once. */
const framesPerTurn = 8

/** What an outbox needs of its surroundings. */
export interface WsSendQueueOptions extends Pick<RpcServices, 'memoryBudget' | 'activeRequests' | 'hintGc'> {
  /** How long a caller for whom too much waits may read nothing, in ms of the system's clock. */
  readonly sendTimeoutMs: number
  /** Called when the caller has read, and what waits has become less. */
  onRead(): void
  /** Ends a socket whose caller does not read. */
  onSlowReader(): void
}

/**
 * What leaves through one WebSocket, in order of sending. Short answers go to the socket at once. A long one goes there
 * frame by frame, as its caller reads; what comes after it waits behind it.
 */
export class WsSendQueue {
  readonly #socket: WebSocket
  readonly #stream: Socket
  readonly #options: WsSendQueueOptions
  readonly #queue: ResponseBody[] = []
  /** What is left of the first in the queue, once that has been begun; in order from the end. */
  #remainingFrames: Frame[] | undefined
  #remainingBytes = 0
  /** Bytes of all others in the queue. */
  #queuedBytes = 0
  /** Answers that have taken room of all callers, until they have left. */
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
    socket.on('close', () => {
      this.#queue.length = this.#remainingBytes = this.#queuedBytes = 0
      this.#updateSendTimer()
      for (const body of this.#reserved) this.#release(body)
    })
  }

  /** Does so much wait behind the answer under way that the caller should ask no more? */
  get needsDrain(): boolean {
    return this.#queuedBytes > slowReaderBytes || this.#queue.length >= maxQueuedResponses
  }

  /** False, and nothing is sent, when too much waits for this caller, or for all callers; short ones always find room. */
  send(body: ResponseBody): boolean {
    if (body.byteLength <= maxSingleFrameBytes && this.#queue.length === 0 && this.#stream.writableLength < maxSocketBufferBytes) {
      this.#stream.write(encodeTextFrame(bodyToLatin1(body)), 'latin1')
      return true
    }
    return this.#pendingClose !== undefined || this.#enqueue(body)
  }

  /** Closes the socket once all that waits has left. Nothing is sent after it. */
  close(code: number, reason: string): void {
    this.#pendingClose ??= { code, reason }
    if (this.#queue.length === 0) this.#socket.close(code, reason)
    else this.#updateSendTimer()
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

  /** A caller who reads as fast as this writes would keep all others waiting; each `turn` frames they get their turn. */
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

  /** Until the socket holds enough. */
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
    // Until then a part of it holds the memory of the whole.
    this.#stream.write(payload, () => this.#release(body))
  }

  #startFrames(body: ResponseBody): Frame[] {
    this.#remainingBytes = body.byteLength
    return splitIntoFrames(body).toReversed()
  }

  /** Whoever lets much wait, or is about to be closed, has to read on. */
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

/** One frame of a long message. Head and payload go out together; what comes between frames may only be pings, pongs and the close. */
interface Frame {
  readonly header: Uint8Array
  readonly payload: Uint8Array
}

/** A text of any length as frames of its pieces and of parts of these, so that none of it need be copied. */
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
