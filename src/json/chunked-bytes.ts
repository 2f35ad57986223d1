/** JSON text as bytes: in one array, or, where it is long and arrived in pieces, in these. */
export type RawJson = Uint8Array | ChunkedBytes

/** Up to here a text is always in one array. */
const maxContiguousBytes = 16_384

/** A long text in the pieces in which it arrived, in order: 6 MB put together would be 6 MB more, and a tenth of their CPU. */
export class ChunkedBytes {
  readonly chunks: readonly Uint8Array[]
  readonly byteLength: number
  /** Where each piece begins. */
  readonly #offsets: readonly number[]

  constructor(chunks: readonly Uint8Array[]) {
    let length = 0
    this.chunks = chunks
    this.#offsets = chunks.map(chunk => (length += chunk.length) - chunk.length)
    this.byteLength = length
  }

  at(offset: number): number | undefined {
    const i = this.#chunkIndexAt(offset)
    return this.chunks[i]?.[offset - this.#offsets[i]!]
  }

  /** A part of it. What is in one piece, or long, is not copied. */
  subarray(start: number, end: number): RawJson {
    const parts: Uint8Array[] = []
    for (let i = this.#chunkIndexAt(start); i < this.chunks.length && this.#offsets[i]! < end; i++) {
      const from = this.#offsets[i]!
      parts.push(this.chunks[i]!.subarray(Math.max(0, start - from), end - from))
    }
    return toRawJson(parts)
  }

  /** The last piece that begins at the offset or before it. */
  #chunkIndexAt(offset: number): number {
    let [low, high] = [0, this.chunks.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#offsets[middle]! <= offset) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** The text that these pieces are. */
export const toRawJson = (chunks: readonly Uint8Array[]): RawJson => {
  const [first] = chunks
  if (first !== undefined && chunks.length === 1) return first
  const chunked = new ChunkedBytes(chunks)
  return chunked.byteLength <= maxContiguousBytes ? toBuffer(chunked) : chunked
}

/** The text in one array; copied if it is in pieces, and 20 MB of them take 20 ms. */
export const toBuffer = (json: RawJson): Buffer =>
  json instanceof ChunkedBytes
    ? Buffer.concat(json.chunks, json.byteLength)
    : Buffer.isBuffer(json)
      ? json
      : Buffer.from(json.buffer, json.byteOffset, json.byteLength)

export const chunksOf = (json: RawJson): readonly Uint8Array[] => (json instanceof ChunkedBytes ? json.chunks : [json])
