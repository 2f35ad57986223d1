import { ascii, escapableBytes, hexDigits, canEndNumber, nextNumberState, state } from './grammar.ts'
import type { State } from './grammar.ts'
import type { ScanError, ScanLimits } from './scan-limits.ts'
import { TopLevelIndex } from './top-level-index.ts'
import type { IndexedItem } from './top-level-index.ts'
import { skipPlainBytes, minDataViewBytes } from './ascii-scan.ts'
import { continuationAfter } from './utf8.ts'
import type { Utf8Continuation } from './utf8.ts'

/**
 * Judges a JSON text while its bytes arrive, just as JSON.parse would (RFC 8259, UTF-8), and outlines it. It builds no
 * values and never recurses. 10,000 logs (6.3 MB) take 11 ms, a request of 120 bytes 0.6 us.
 */
export class Scanner {
  /**
   * V8 forgets what it has learnt about the objects of a class when a collection finds none, as in a pause: from then on
   * each scan would take three times as long.
   */
  static readonly feedbackAnchor = new Scanner({ maxDepth: 1, maxElements: 1, maxValues: 1 })
  /** Set as soon as it is known; no byte is looked at after that. */
  error: ScanError | undefined = undefined
  /** Not all of it is ASCII. */
  hasNonAscii = false
  readonly #limits: ScanLimits
  readonly #index: TopLevelIndex
  #state: State = state.value
  /** For each array and object around the next byte: is it an object? */
  readonly #containerIsObject: boolean[] = []
  #depth = 0
  /** Bytes in earlier chunks. */
  #chunkOffset = 0
  #valueCount = 0
  /** The string being read is a name. */
  #isName = false
  #nameStart = 0
  /** The word being read: true, false or null. */
  #literal = ''
  /** How many bytes of a word or \u0000 are still to come. */
  #remainingBytes = 0
  /** Of the chunk, when it is long. */
  #view: DataView | undefined
  /** What must follow in the character being read. */
  #continuation: Utf8Continuation | undefined

  constructor(limits: ScanLimits) {
    this.#limits = limits
    this.#index = new TopLevelIndex(limits.maxElements, limits.maxMembers)
  }

  /** The top-level value is an array, and the items are its elements. */
  get isArray(): boolean {
    return this.#index.isArray
  }

  /** What was found so far. */
  get items(): readonly IndexedItem[] {
    return this.#index.items
  }

  /** Takes the next bytes; false once the text is refused. */
  push(chunk: Uint8Array): boolean {
    this.#view = chunk.length < minDataViewBytes ? undefined : new DataView(chunk.buffer, chunk.byteOffset, chunk.length)
    let at = 0
    while (at < chunk.length && this.#state !== state.failed) {
      if (this.#state === state.string) at = this.#readString(chunk, at)
      else if (this.#state <= state.after) at = this.#readStructure(chunk, at)
      else if (this.#readScalarByte(chunk[at]!, this.#chunkOffset + at)) at++
    }
    this.#chunkOffset += chunk.length
    return this.error === undefined
  }

  /** No more bytes come. */
  end(): ScanError | undefined {
    if (canEndNumber(this.#state)) this.#endValue(this.#chunkOffset)
    if (this.#state !== state.after || this.#depth > 0) this.#fail(this.error ?? 'syntax')
    return this.error
  }

  #fail(error: ScanError): void {
    this.error = error
    this.#state = state.failed
  }

  #expect(condition: boolean, next: State): void {
    if (condition) this.#state = next
    else this.#fail('syntax')
  }

  /**
   * Reads on to the end of the string. Deep in a result, where nothing is outlined, `:"` or `,"` mostly follow and begin
   * the next one, which is then read too: 10,000 logs are 190,000 strings.
   */
  #readString(chunk: Uint8Array, from: number): number {
    const view = this.#view
    let at = skipPlainBytes(chunk, view, from)
    if (this.#depth > this.#index.memberDepth + 1) {
      const isInObject = this.#containerIsObject[this.#depth - 1]!
      const maxValues = this.#limits.maxValues
      let isName = this.#isName
      let valueCount = this.#valueCount
      while (
        chunk[at] === ascii.quote &&
        chunk[at + 2] === ascii.quote &&
        chunk[at + 1] === (isName ? ascii.colon : ascii.comma) &&
        valueCount < maxValues
      ) {
        isName = !isName && isInObject
        if (!isName) valueCount++
        at = skipPlainBytes(chunk, view, at + 3)
      }
      this.#isName = isName
      this.#valueCount = valueCount
    }
    return at === chunk.length ? at : this.#readStringEnd(chunk[at]!, at)
  }

  #readStringEnd(byte: number, at: number): number {
    if (byte === ascii.quote) this.#endString(this.#chunkOffset + at)
    else if (byte === ascii.backslash) this.#state = state.escape
    else if (byte >= 0x80) this.#startMultibyte(byte)
    else this.#fail('syntax')
    return at + 1
  }

  #readStructure(chunk: Uint8Array, from: number): number {
    let at = from
    for (; at < chunk.length && this.#state <= state.after; at++) {
      const byte = chunk[at]!
      if (byte > ascii.space || !isSpace(byte)) this.#readStructuralByte(byte, this.#chunkOffset + at)
    }
    return at
  }

  #readStructuralByte(byte: number, offset: number): void {
    switch (this.#state) {
      case state.after:
        return this.#readAfterValue(byte, offset)
      case state.colon:
        return this.#expect(byte === ascii.colon, state.value)
      case state.name:
        return this.#startName(byte, offset)
      case state.value:
        return this.#startValue(byte, offset)
      case state.firstName:
        return byte === ascii.closeObject ? this.#closeContainer(offset) : this.#startName(byte, offset)
      default:
        return byte === ascii.closeArray ? this.#closeContainer(offset) : this.#startValue(byte, offset)
    }
  }

  /** False when the byte ends a number but is not part of it. */
  #readScalarByte(byte: number, offset: number): boolean {
    switch (this.#state) {
      case state.escape:
        this.#readEscape(byte)
        return true
      case state.unicodeEscape:
        this.#expect(hexDigits[byte] === 1, --this.#remainingBytes === 0 ? state.string : state.unicodeEscape)
        return true
      case state.multibyte:
        this.#readMultibyte(byte)
        return true
      case state.literal:
        this.#readLiteral(byte, offset)
        return true
      default:
        return this.#readNumber(byte, offset)
    }
  }

  #startValue(byte: number, offset: number): void {
    if (++this.#valueCount > this.#limits.maxValues) return this.#fail('values')
    if (this.#depth <= this.#index.memberDepth + 1) {
      const error = this.#index.startValue(byte, this.#depth, offset)
      if (error !== undefined) return this.#fail(error)
    }
    switch (byte) {
      case ascii.quote:
        return this.#startString(false)
      case ascii.openObject:
        return this.#openContainer(true)
      case ascii.openArray:
        return this.#openContainer(false)
      case ascii.t:
        return this.#startLiteral('true')
      case ascii.f:
        return this.#startLiteral('false')
      case ascii.n:
        return this.#startLiteral('null')
      case ascii.minus:
        return this.#expect(true, state.minus)
      case ascii.zero:
        return this.#expect(true, state.zero)
      default:
        return this.#expect(byte > ascii.zero && byte <= ascii.nine, state.integer)
    }
  }

  /** A value ended; `end` is the offset behind it. */
  #endValue(end: number): void {
    this.#state = state.after
    if (this.#depth > this.#index.memberDepth) return
    const error = this.#index.end(this.#depth, end)
    if (error !== undefined) this.#fail(error)
  }

  #readAfterValue(byte: number, offset: number): void {
    if (this.#depth === 0) return this.#fail('syntax')
    const isObject = this.#containerIsObject[this.#depth - 1]!
    if (byte === ascii.comma) this.#state = isObject ? state.name : state.value
    else if (byte === (isObject ? ascii.closeObject : ascii.closeArray)) this.#closeContainer(offset)
    else this.#fail('syntax')
  }

  #openContainer(isObject: boolean): void {
    if (this.#depth === this.#limits.maxDepth) return this.#fail('depth')
    this.#containerIsObject[this.#depth++] = isObject
    this.#state = isObject ? state.firstName : state.firstElement
  }

  #closeContainer(offset: number): void {
    this.#depth--
    this.#endValue(offset + 1)
  }

  #startName(byte: number, offset: number): void {
    if (byte !== ascii.quote) return this.#fail('syntax')
    this.#nameStart = offset + 1
    this.#startString(true)
  }

  #startString(isName: boolean): void {
    this.#isName = isName
    this.#state = state.string
  }

  #endString(offset: number): void {
    if (!this.#isName) return this.#endValue(offset + 1)
    this.#state = state.colon
    if (this.#depth === this.#index.memberDepth) this.#index.setName(this.#nameStart, offset)
  }

  #readEscape(byte: number): void {
    this.#remainingBytes = 4
    this.#expect(byte === ascii.u || escapableBytes[byte] === 1, byte === ascii.u ? state.unicodeEscape : state.string)
  }

  #startMultibyte(byte: number): void {
    this.hasNonAscii = true
    this.#continuation = continuationAfter(byte)
    this.#expect(this.#continuation !== undefined, state.multibyte)
  }

  #readMultibyte(byte: number): void {
    const { min, max, next } = this.#continuation!
    this.#continuation = next
    this.#expect(byte >= min && byte <= max, next === undefined ? state.string : state.multibyte)
  }

  #startLiteral(literal: string): void {
    this.#literal = literal
    this.#remainingBytes = literal.length - 1
    this.#state = state.literal
  }

  #readLiteral(byte: number, offset: number): void {
    if (byte !== this.#literal.charCodeAt(this.#literal.length - this.#remainingBytes)) return this.#fail('syntax')
    if (--this.#remainingBytes === 0) this.#endValue(offset + 1)
  }

  #readNumber(byte: number, offset: number): boolean {
    const next = nextNumberState(this.#state, byte)
    if (next !== undefined) this.#state = next
    else if (canEndNumber(this.#state)) this.#endValue(offset)
    else this.#fail('syntax')
    return next !== undefined
  }
}

const isSpace = (byte: number): boolean =>
  byte === ascii.space || byte === ascii.lineFeed || byte === ascii.carriageReturn || byte === ascii.tab
