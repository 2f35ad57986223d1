import { setImmediate } from 'node:timers/promises'
import { FreedResultError, ResultMemory } from './result-memory.ts'

/** JSON text as bytes: in one array, or, where it is long and arrived in chunks, in these. */
export type RawJson = Uint8Array | ChunkedBytes

/** Up to here a text is always in one array. */
const maxContiguousBytes = 16_384

/**
 * A long text in the chunks in which it arrived. toBuffer() puts it together.
 *
 * 6 MB put together would be 6 MB more, and a tenth of their CPU. The chunks are private, as several callers may get the same text.
 */
export class ChunkedBytes {
  readonly byteLength: number
  readonly #ownChunks: readonly Uint8Array[]
  /** Where each chunk begins. */
  readonly #offsets: readonly number[]

  readonly #memory: ResultMemory | undefined

  /** `memory`: where chunks are that are freed once nobody reads them any more. */
  constructor(chunks: readonly Uint8Array[], memory?: ResultMemory) {
    let length = 0
    this.#ownChunks = chunks
    this.#memory = memory
    this.#offsets = chunks.map(chunk => (length += chunk.length) - chunk.length)
    this.byteLength = length
  }

  /** Use chunksOf(). */
  static chunksOf(json: ChunkedBytes): readonly Uint8Array[] {
    return json.#chunks
  }

  /** Use memoryOf(). */
  static memoryOf(json: ChunkedBytes): ResultMemory | undefined {
    return json.#memory
  }

  get #chunks(): readonly Uint8Array[] {
    if (this.#memory?.isFreed === true) throw new FreedResultError()
    return this.#ownChunks
  }

  at(offset: number): number | undefined {
    const i = this.#chunkIndexAt(offset)
    return this.#chunks[i]?.[offset - this.#offsets[i]!]
  }

  /** A part of the text. A part that is in one chunk, or long, is not copied. */
  subarray(start: number, end: number): RawJson {
    const parts: Uint8Array[] = []
    for (let i = this.#chunkIndexAt(start); i < this.#chunks.length && this.#offsets[i]! < end; i++) {
      const from = this.#offsets[i]!
      parts.push(this.#chunks[i]!.subarray(Math.max(0, start - from), end - from))
    }
    return toRawJson(parts, this.#memory)
  }

  /** The last chunk that begins at the offset or before it. */
  #chunkIndexAt(offset: number): number {
    let [low, high] = [0, this.#chunks.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#offsets[middle]! <= offset) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** The same text for a holder who may keep it: its memory is left to the garbage collector. */
export const withoutMemory = (json: RawJson): RawJson => {
  const memory = memoryOf(json)
  if (memory === undefined) return json
  memory.addHolder()
  return new ChunkedBytes(chunksOf(json))
}

/** The text that these chunks are. */
export const toRawJson = (chunks: readonly Uint8Array[], memory?: ResultMemory): RawJson => {
  const [first] = chunks
  if (first !== undefined && chunks.length === 1) return first
  const chunked = new ChunkedBytes(chunks, memory)
  return chunked.byteLength <= maxContiguousBytes ? toBuffer(chunked) : chunked
}

/** The text in one array; copied if it is in chunks, and 20 MB of them take 20 ms. */
export const toBuffer = (json: RawJson): Buffer =>
  json instanceof ChunkedBytes
    ? Buffer.concat(chunksOf(json), json.byteLength)
    : Buffer.isBuffer(json)
      ? json
      : Buffer.from(json.buffer, json.byteOffset, json.byteLength)

export const chunksOf = (json: RawJson): readonly Uint8Array[] => (json instanceof ChunkedBytes ? ChunkedBytes.chunksOf(json) : [json])

/** The memory of a result above 256 KiB, which its holders release; undefined where it is left to the garbage collector. */
export const memoryOf = (json: RawJson): ResultMemory | undefined =>
  json instanceof ChunkedBytes ? ChunkedBytes.memoryOf(json) : undefined

/** The bytes as text of one character per byte: offsets stay, and any bytes come back unchanged. */
export const toLatin1 = (json: RawJson, start = 0, end = json.byteLength): string =>
  json instanceof ChunkedBytes ? toLatin1(toBuffer(json.subarray(start, end))) : toBuffer(json).toString('latin1', start, end)

export const toUtf8 = (json: RawJson, start = 0, end = json.byteLength): string => toBuffer(json.subarray(start, end)).toString('utf8')

/** The same text, which no longer keeps the text alive that it was cut from, as it does in V8. */
export const detach = (text: string): string => ` ${text}`.slice(1)

/** A member's name with its escapes resolved: `\u0069d` is `id`. */
export const unescapeName = (raw: string): string => (raw.includes('\\') ? String(JSON.parse(`"${raw}"`)) : raw)

/** One array of exactly `byteLength` bytes. The event loop gets its turn after each MiB: 21 MB copied at once take 15 to 22 ms. */
export const concatChunks = async (chunks: readonly Uint8Array[], byteLength: number): Promise<Uint8Array> => {
  const all = Buffer.allocUnsafe(byteLength)
  let at = 0
  let nextYieldAt = maxBytesPerTurn
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
    if (at < nextYieldAt) continue
    nextYieldAt = at + maxBytesPerTurn
    await setImmediate()
  }
  return all
}

/** Bytes that one turn of the event loop copies or scans. */
export const maxBytesPerTurn = 1_048_576

/** A chunk costs some hundred bytes, and its place in each write: shorter chunks are copied together. */
const minUncopiedBytes = 16_384
/** The memory of longer texts is released by their holders. */
const maxSlabBytes = 262_144

/** One for all: to make an array of bytes takes 0.2 us, even of none. */
const noBytes = new Uint8Array()

/** Collects bytes as they arrive, in chunks none of which are many and short. */
export class ChunkBuffer {
  byteLength = 0
  readonly #expectedBytes: number
  readonly #chunks: Uint8Array[] = []
  /** Where chunks are copied to, and how much of it is used. */
  #slab = noBytes
  #slabUsedBytes = 0
  /** Where in the slab the last chunk begins, if it is in the slab and may grow. */
  #openChunkStart: number | undefined
  /** Of the slabs, from the first of the most bytes on. */
  #memory: ResultMemory | undefined

  /** `expectedBytes`: how many bytes there will be, where that is known. */
  constructor(expectedBytes: number) {
    this.#expectedBytes = expectedBytes
  }

  /** Unless the bytes are transient, they must not change afterwards. */
  push(chunk: Uint8Array, isTransient = false): void {
    if (!isTransient && (this.byteLength === 0 || chunk.length >= minUncopiedBytes)) this.#append(chunk)
    else for (let copied = 0; copied < chunk.length; ) copied += this.#copyToSlab(chunk, copied)
  }

  get rawJson(): RawJson {
    return toRawJson(this.#chunks, this.#memory)
  }

  /** Frees the bytes, which nobody else has got. */
  discard(): void {
    this.#memory?.release()
  }

  #append(chunk: Uint8Array): void {
    this.#openChunkStart = undefined
    this.#chunks.push(chunk)
    this.byteLength += chunk.length
  }

  /** Copies what fits from `start` on; returns how many bytes that is. */
  #copyToSlab(chunk: Uint8Array, start: number): number {
    if (this.#slabUsedBytes === this.#slab.length) this.#allocateSlab(chunk.length - start)
    const copiedBytes = Math.min(chunk.length - start, this.#slab.length - this.#slabUsedBytes)
    this.#slab.set(copiedBytes === chunk.length ? chunk : chunk.subarray(start, start + copiedBytes), this.#slabUsedBytes)
    if (this.#openChunkStart !== undefined) this.#chunks.pop()
    this.#openChunkStart ??= this.#slabUsedBytes
    this.#slabUsedBytes += copiedBytes
    this.#chunks.push(this.#slab.subarray(this.#openChunkStart, this.#slabUsedBytes))
    this.byteLength += copiedBytes
    return copiedBytes
  }

  /** For what is announced; else for what there is at first, and then, the more has come, for the more of what may come. */
  #allocateSlab(minBytes: number): void {
    const announcedBytes = this.#expectedBytes - this.byteLength
    const moreBytes = this.byteLength === 0 ? 0 : Math.max(this.byteLength, minUncopiedBytes)
    const slabBytes = announcedBytes > 0 ? announcedBytes : Math.max(minBytes, moreBytes)
    const slab = Buffer.allocUnsafeSlow(Math.min(slabBytes, maxSlabBytes))
    if (slab.length === maxSlabBytes) this.#memory ??= new ResultMemory()
    this.#memory?.addSlab(slab.buffer)
    this.#slab = slab
    this.#slabUsedBytes = 0
    this.#openChunkStart = undefined
  }
}

const jsonNull = Buffer.from('null')

/** Whether the text is `null`. */
export const isJsonNull = (json: RawJson): boolean => json.byteLength === jsonNull.length && toBuffer(json).equals(jsonNull)
