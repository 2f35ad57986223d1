import { ascii } from '../../../json/grammar.ts'
import { InvalidResponseError } from '../network-errors.ts'

/** Most digits of the size of a chunk: below 2^52. */
const maxSizeDigits = 13
/** Most bytes of extensions of chunks and of trailers together. Both are ignored. */
const maxIgnoredBytes = 16_384
/** Bytes that mean something beside those of JSON. */
const byteOf = { semicolon: 0x3b, a: 0x61, delete: 0x7f } as const

/** What comes next. */
type DecoderState = 'size' | 'extension' | 'sizeLf' | 'data' | 'dataCr' | 'dataLf' | 'lineStart' | 'trailer' | 'trailerLf' | 'endLf'

/** Decodes the chunked transfer coding (RFC 9112, section 7.1). */
export class ChunkedBody {
  isComplete = false
  /** Where the data ends that the last read() has found. */
  dataEnd = 0
  #state: DecoderState = 'size'
  /** Of the current chunk. */
  #remainingBytes = 0
  #sizeDigits = 0
  #ignoredBytes = 0

  /**
   * Reads from `offset` to the end of the body or of `bytes`; returns the offset behind. The data of all chunks is moved together, so
   * that it is between `offset` and `dataEnd`: a node that sends chunks of one byte costs one event for all of them.
   */
  read(bytes: Buffer, offset: number): number {
    this.dataEnd = offset
    let at = offset
    while (at < bytes.length && !this.isComplete) {
      if (this.#state === 'data') at = this.#moveData(bytes, at)
      else this.#readByte(bytes[at++]!)
    }
    return at
  }

  #moveData(bytes: Buffer, at: number): number {
    const end = Math.min(bytes.length, at + this.#remainingBytes)
    if (at !== this.dataEnd) bytes.copyWithin(this.dataEnd, at, end)
    this.dataEnd += end - at
    this.#remainingBytes -= end - at
    if (this.#remainingBytes === 0) this.#state = 'dataCr'
    return end
  }

  #readByte(byte: number): void {
    switch (this.#state) {
      case 'size':
        return this.#readSize(byte)
      case 'extension':
        return this.#ignoreUntilCr(byte, 'sizeLf')
      case 'sizeLf':
        return this.#expect(byte, ascii.lineFeed, this.#remainingBytes > 0 ? 'data' : 'lineStart')
      case 'dataCr':
        return this.#expect(byte, ascii.carriageReturn, 'dataLf')
      case 'dataLf':
        this.#sizeDigits = 0
        return this.#expect(byte, ascii.lineFeed, 'size')
      case 'lineStart':
        return byte === ascii.carriageReturn ? void (this.#state = 'endLf') : this.#ignoreUntilCr(byte, 'trailerLf')
      case 'trailer':
        return this.#ignoreUntilCr(byte, 'trailerLf')
      case 'trailerLf':
        return this.#expect(byte, ascii.lineFeed, 'lineStart')
      case 'endLf':
        this.#expect(byte, ascii.lineFeed, 'size')
        this.isComplete = true
    }
  }

  #readSize(byte: number): void {
    const digit = hexDigit(byte)
    if (digit >= 0) {
      this.#sizeDigits += 1
      if (this.#sizeDigits > maxSizeDigits) throw new InvalidResponseError('HTTP_CHUNK_SIZE')
      this.#remainingBytes = this.#remainingBytes * 16 + digit
      return
    }
    if (this.#sizeDigits === 0) throw new InvalidResponseError('HTTP_CHUNK_SIZE')
    if (byte === ascii.carriageReturn) this.#state = 'sizeLf'
    else if (byte === byteOf.semicolon || byte === ascii.space || byte === ascii.tab) this.#state = 'extension'
    else throw new InvalidResponseError('HTTP_CHUNK_SIZE')
  }

  #ignoreUntilCr(byte: number, next: DecoderState): void {
    if (byte === ascii.carriageReturn) {
      this.#state = next
      return
    }
    if (next === 'trailerLf') this.#state = 'trailer'
    this.#ignoredBytes += 1
    const isControl = (byte < ascii.space && byte !== ascii.tab) || byte === byteOf.delete
    if (isControl || this.#ignoredBytes > maxIgnoredBytes) throw new InvalidResponseError('HTTP_CHUNK')
  }

  #expect(byte: number, expected: number, next: DecoderState): void {
    if (byte !== expected) throw new InvalidResponseError('HTTP_CHUNK')
    this.#state = next
  }
}

/** -1 for what is no digit. */
const hexDigit = (byte: number): number => {
  if (byte >= ascii.zero && byte <= ascii.nine) return byte - ascii.zero
  const letter = (byte | 0x20) - byteOf.a
  return letter >= 0 && letter < 6 ? letter + 10 : -1
}
