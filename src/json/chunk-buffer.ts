import { toRawJson } from './chunked-bytes.ts'
import type { RawJson } from './chunked-bytes.ts'

/** A piece costs some hundred bytes, and its place in each write: shorter ones are copied together. */
const minUncopiedBytes = 16_384
const slabBytes = 65_536

/** Bytes as they arrive, in pieces none of which are many and short. */
export class ChunkBuffer {
  byteLength = 0
  readonly #expectedBytes: number
  readonly #chunks: Uint8Array[] = []
  /** Where short pieces are copied to, and how much of it is used. */
  #slab = new Uint8Array()
  #slabUsedBytes = 0
  /** Where in the slab the last piece begins, if it is one of the slab and may grow. */
  #openChunkStart: number | undefined

  /** `expected`: how many bytes there will be, where it is known. */
  constructor(expectedBytes: number) {
    this.#expectedBytes = expectedBytes
  }

  /** The bytes must not change afterwards. */
  push(chunk: Uint8Array): void {
    if (this.byteLength === 0 || chunk.length >= minUncopiedBytes) this.#append(chunk)
    else this.#copyToSlab(chunk)
    this.byteLength += chunk.length
  }

  get rawJson(): RawJson {
    return toRawJson(this.#chunks)
  }

  #append(chunk: Uint8Array): void {
    this.#openChunkStart = undefined
    this.#chunks.push(chunk)
  }

  #copyToSlab(chunk: Uint8Array): void {
    if (this.#slabUsedBytes + chunk.length > this.#slab.length) this.#allocateSlab(chunk.length)
    this.#slab.set(chunk, this.#slabUsedBytes)
    const start = this.#openChunkStart ?? this.#slabUsedBytes
    this.#slabUsedBytes += chunk.length
    if (this.#openChunkStart !== undefined) this.#chunks.pop()
    this.#chunks.push(this.#slab.subarray(start, this.#slabUsedBytes))
    this.#openChunkStart = start
  }

  #allocateSlab(minBytes: number): void {
    const remainingBytes = this.#expectedBytes - this.byteLength
    this.#slab = Buffer.allocUnsafeSlow(remainingBytes >= minBytes ? Math.min(remainingBytes, slabBytes) : slabBytes)
    this.#slabUsedBytes = 0
    this.#openChunkStart = undefined
  }
}
