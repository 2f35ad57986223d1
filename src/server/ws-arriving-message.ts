import type { CallerMemory } from '../services/memory-budget.ts'

/** Up to here what has arrived of a message is not reserved: most messages are short, and arrive whole. */
const minReservedBytes = 4_096

/** What ws and V8 take for a frame of a message that is not complete, besides its bytes. Measured: 110. */
const fragmentOverheadBytes = 128

/**
 * Reserves what `ws` holds of a message that is not complete: it collects the frames of a message, and reports the message only when it is
 * complete.
 */
export class ArrivingMessage {
  readonly #memory: CallerMemory
  readonly #frames = new IncompleteFrames()
  #reservedBytes = 0

  constructor(memory: CallerMemory) {
    this.#memory = memory
  }

  /** A chunk has arrived, which ws has not read yet. False when it does not fit the memory budget. */
  push(chunk: Uint8Array): boolean {
    const unreadBytes = this.#frames.heldBytes + chunk.length
    this.#frames.read(chunk)
    const neededBytes = Math.max(unreadBytes, this.#frames.heldBytes)
    const missingBytes = neededBytes - this.#reservedBytes
    if (neededBytes <= minReservedBytes || missingBytes <= 0) return true
    if (!this.#memory.reserve(missingBytes)) return false
    this.#reservedBytes += missingBytes
    return true
  }

  /** ws has reported a message, a ping or a pong of the latest chunk: what is complete is not held as a part any more. */
  release(): void {
    const { heldBytes } = this.#frames
    if (this.#reservedBytes > heldBytes) this.#releaseDownTo(heldBytes <= minReservedBytes ? 0 : heldBytes)
  }

  /** The connection is closed. */
  releaseAll(): void {
    this.#releaseDownTo(0)
  }

  #releaseDownTo(bytes: number): void {
    this.#memory.release(this.#reservedBytes - bytes)
    this.#reservedBytes = bytes
  }
}

/**
 * Follows the frames of a client (RFC 6455, 5.2), to know what ws holds of those that are not complete, or belong to such a message. A frame that came
 * in one chunk is held as a part of it: a frame of a byte among pings keeps the 64 KiB that were read with it. Other frames are copied.
 */
class IncompleteFrames {
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
