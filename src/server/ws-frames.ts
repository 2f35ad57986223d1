import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { bodyToBuffer } from '../json-rpc/serialize-response.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'

/**
 * A whole message as one frame of a server (RFC 6455, 5.2), one character per byte, up to 65,535 of them. It is written to
 * the socket directly: ws would copy the text into a buffer, and write header and payload apart. With the Sender of ws a
 * cached call over WebSocket takes 1.12 to 1.16 times the CPU.
 */
export const encodeTextFrame = (text: string): string => {
  const { length } = text
  const size = length < 126 ? String.fromCharCode(length) : String.fromCharCode(126, length >> 8, length & 0xff)
  return `\x81${size}${text}`
}

/** Most bytes of a frame. */
const maxFrameBytes = 131_072

/** One frame of a long message. Header and payload go out together; between frames only pings, pongs and the close may be sent. */
export interface Frame {
  readonly header: Uint8Array
  readonly payload: Uint8Array
}

/** A text of any length as frames of its chunks and of parts of these, without a copy. */
export const splitIntoFrames = (body: ResponseBody): readonly Frame[] => {
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

/** What ws and V8 take for a frame of a message that is not complete, besides its bytes. Measured: 110. */
const fragmentOverheadBytes = 128

/**
 * Follows the frames of a client (RFC 6455, 5.2), to know what ws holds of those that are not complete, or belong to such a message. A frame that came
 * in one chunk is held as a part of it: a frame of a byte among pings keeps the 64 KiB that were read with it. Other frames are copied.
 */
export class IncompleteFrames {
  /** Of complete frames of the message that is not complete: the chunks that they are parts of, and the copies. */
  #messageBytes = 0
  #fragmentCount = 0
  /** Of further chunks with a part of the frame that is being read. */
  #frameBytes = 0
  /** Of the header that is being read: its bytes so far, and all of them as far as is known. */
  #headerIndex = 0
  #headerBytes = 2
  #firstByte = 0
  /** Where the length ends in the header. */
  #lengthEnd = 2
  /** Of the frame that is being read: all of them, and those that are missing. */
  #payloadBytes = 0
  #missingBytes = 0
  /** An earlier chunk had a part of the payload. */
  #isCut = false

  get heldBytes(): number {
    return this.#messageBytes + this.#frameBytes + this.#fragmentCount * fragmentOverheadBytes
  }

  read(chunk: Uint8Array): void {
    let isHeld = false
    for (let at = 0; at < chunk.length; ) {
      if (this.#headerIndex < this.#headerBytes) this.#readHeader(chunk[at++]!)
      else {
        const byteLength = Math.min(this.#missingBytes, chunk.length - at)
        this.#missingBytes -= byteLength
        at += byteLength
      }
      const isComplete = this.#headerIndex === this.#headerBytes && this.#missingBytes === 0
      if (!isComplete) continue
      const isControlFrame = (this.#firstByte & 0x08) !== 0
      if (!isControlFrame) isHeld = this.#endDataFrame(isHeld)
      this.#headerIndex = 0
      this.#headerBytes = 2
      this.#frameBytes = this.#payloadBytes = this.#missingBytes = 0
      this.#isCut = false
    }
    const isInFrame = this.#headerIndex > 0
    if (isHeld) this.#messageBytes += chunk.length
    else if (isInFrame) this.#frameBytes += chunk.length
    this.#isCut = this.#missingBytes < this.#payloadBytes
  }

  #readHeader(byte: number): void {
    const index = this.#headerIndex++
    if (index === 0) this.#firstByte = byte
    else if (index === 1) {
      const [length, maskBytes] = [byte & 0x7f, byte & 0x80 ? 4 : 0]
      const extendedBytes = length === 126 ? 2 : length === 127 ? 8 : 0
      this.#headerBytes = 2 + extendedBytes + maskBytes
      this.#lengthEnd = 2 + extendedBytes
      this.#payloadBytes = extendedBytes > 0 ? 0 : length
    } else if (index < this.#lengthEnd) this.#payloadBytes = this.#payloadBytes * 256 + byte
    this.#missingBytes = this.#payloadBytes
  }

  /** Takes and returns whether the message that is not complete has a frame that is a part of this chunk. */
  #endDataFrame(isHeld: boolean): boolean {
    const isLast = (this.#firstByte & 0x80) !== 0
    this.#fragmentCount = isLast ? 0 : this.#fragmentCount + 1
    if (isLast) this.#messageBytes = 0
    else if (this.#isCut) this.#messageBytes += this.#payloadBytes
    return !isLast && (isHeld || !this.#isCut)
  }
}

/** Pongs that the socket may buffer. */
const maxPendingPongs = 60

/** A caller that sends pings and reads no pongs gets one pong for all pings above the limit (RFC 6455, 5.5.3). */
export class PongSender {
  readonly #socket: WebSocket
  #pendingPongCount = 0
  /** The payload of the latest ping that waits for its pong. */
  #latestPing: Buffer | undefined

  constructor(socket: WebSocket) {
    this.#socket = socket
  }

  send(payload: Buffer): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    if (this.#pendingPongCount >= maxPendingPongs) {
      this.#latestPing = payload
      return
    }
    this.#pendingPongCount += 1
    this.#socket.pong(payload, false, () => {
      this.#pendingPongCount -= 1
      const latestPing = this.#latestPing
      this.#latestPing = undefined
      if (latestPing !== undefined) this.send(latestPing)
    })
  }
}

/** Collects what is written to a socket in one turn, for one write. With 32 calls in flight on a WebSocket that saves a third of the CPU. */
export class TickCork {
  readonly #stream: Socket
  #isCorked = false

  constructor(stream: Socket) {
    this.#stream = stream
  }

  /** More will be written in this turn. */
  untilNextTick(): void {
    if (this.#isCorked) return
    this.#isCorked = true
    this.#stream.cork()
    process.nextTick(() => {
      this.#isCorked = false
      this.#stream.uncork()
    })
  }
}

/** What a close frame says. */
export interface CloseStatus {
  readonly code: number
  readonly reason: string
}

const maxReasonBytes = 123

/** As a close frame may have it (RFC 6455, 5.5 and 7.4): a longer reason is cut, between two characters. Throws RangeError for another code. */
export const closeStatusOf = (code: number, reason: string): CloseStatus => {
  if (!isCloseCode(code)) throw new RangeError(`${code} is no code with which a WebSocket can be closed`)
  const bytes = Buffer.from(reason)
  let end = Math.min(bytes.length, maxReasonBytes)
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return { code, reason: bytes.toString('utf8', 0, end) }
}

const reservedCodes: readonly number[] = [1004, 1005, 1006]

const isCloseCode = (code: number): boolean =>
  Number.isInteger(code) && ((code >= 1000 && code <= 1014 && !reservedCodes.includes(code)) || (code >= 3000 && code <= 4999))
