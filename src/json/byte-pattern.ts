/** Bytes that are read four at a time. */
export class ByteView {
  readonly bytes: Buffer
  readonly view: DataView
  /** Kept here: a DataView takes 10 ns to tell it. */
  readonly length: number

  constructor({ buffer, byteOffset, length }: Uint8Array) {
    this.bytes = Buffer.from(buffer, byteOffset, length)
    this.view = new DataView(buffer, byteOffset, length)
    this.length = length
  }

  /** 0 behind the end: no JSON text has it. */
  at(offset: number): number {
    return offset < this.length ? this.view.getUint8(offset) : 0
  }
}

const wordBytes = 4

/** In each of four bytes the bit that makes ASCII letters small; digits and quotes have it. */
const lowerCaseBits = 0x20202020

/** A text that is compared with a place in bytes: a name and an address take 13 ns, byte by byte 40. */
export class BytePattern {
  readonly length: number
  readonly #words: Int32Array
  /** What is left of the text behind the words. */
  readonly #rest: Uint8Array
  readonly #caseBits: number

  /** `ignoresCase`: for letters, digits and quotes only. */
  constructor(text: string, { ignoresCase = false } = {}) {
    const { bytes, view, length } = new ByteView(Buffer.from(ignoresCase ? text.toLowerCase() : text))
    this.length = length
    this.#words = Int32Array.from({ length: Math.floor(length / wordBytes) }, (_, i) => view.getInt32(i * wordBytes, true))
    this.#rest = bytes.subarray(this.#words.length * wordBytes)
    this.#caseBits = ignoresCase ? lowerCaseBits : 0
  }

  isAt({ view, length }: ByteView, offset: number): boolean {
    if (offset < 0 || offset + this.length > length) return false
    const [words, rest, caseBits] = [this.#words, this.#rest, this.#caseBits]
    let at = offset
    for (let i = 0; i < words.length; i++, at += wordBytes) if ((view.getInt32(at, true) | caseBits) !== words[i]) return false
    for (let i = 0; i < rest.length; i++) if ((view.getUint8(at + i) | (caseBits & 0xff)) !== rest[i]) return false
    return true
  }
}
