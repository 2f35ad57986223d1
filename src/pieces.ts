/** JSON text as bytes: in one array, or, where it is long and arrived in pieces, in these. */
export type Text = Uint8Array | Pieces

/** Up to here a text is always in one array. */
const short = 16_384

/** A long text in the pieces in which it arrived, in order: 6 MB put together would be 6 MB more, and a tenth of their CPU. */
export class Pieces {
  readonly list: readonly Uint8Array[]
  readonly byteLength: number
  /** Where each piece begins. */
  readonly #starts: readonly number[]

  constructor(list: readonly Uint8Array[]) {
    let length = 0
    this.list = list
    this.#starts = list.map(piece => (length += piece.length) - piece.length)
    this.byteLength = length
  }

  at(offset: number): number | undefined {
    const i = this.#find(offset)
    return this.list[i]?.[offset - this.#starts[i]!]
  }

  /** A part of it. What is in one piece, or long, is not copied. */
  subarray(start: number, end: number): Text {
    const parts: Uint8Array[] = []
    for (let i = this.#find(start); i < this.list.length && this.#starts[i]! < end; i++) {
      const from = this.#starts[i]!
      parts.push(this.list[i]!.subarray(Math.max(0, start - from), end - from))
    }
    return textOf(parts)
  }

  /** The last piece that begins at the offset or before it. */
  #find(offset: number): number {
    let [low, high] = [0, this.list.length - 1]
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#starts[middle]! <= offset) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** The text that these pieces are. */
export const textOf = (pieces: readonly Uint8Array[]): Text => {
  const [first] = pieces
  if (first !== undefined && pieces.length === 1) return first
  const text = new Pieces(pieces)
  return text.byteLength <= short ? wholeOf(text) : text
}

/** The text in one array; copied if it is in pieces, and 20 MB of them take 20 ms. */
export const wholeOf = (text: Text): Buffer =>
  text instanceof Pieces
    ? Buffer.concat(text.list, text.byteLength)
    : Buffer.isBuffer(text)
      ? text
      : Buffer.from(text.buffer, text.byteOffset, text.byteLength)

export const piecesOf = (text: Text): readonly Uint8Array[] => (text instanceof Pieces ? text.list : [text])
