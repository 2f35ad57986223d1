import { ascii, canEndNumber, isSpace, minDataViewBytes, nextState, skipPlainBytes, state } from './grammar.ts'
import type { State } from './grammar.ts'
import { TopLevelIndex, defaultMaxMembers } from './top-level-index.ts'
import type { IndexedItem, IndexedMember } from './top-level-index.ts'
import { getWasmScanner, maxWasmDepth } from './wasm-scanner.ts'

/** Most values in a text that is to be parsed: JSON.parse takes up to 25 ms for them, but 120 ms for 1 MiB of `{},`. */
export const maxParsedValues = 25_000

/** Why a text is refused: it is not JSON, or it exceeds one of the limits. */
export type ScanError = 'syntax' | 'depth' | 'members' | 'elements' | 'values'

export interface ScanLimits {
  /** How deep arrays and objects may nest. */
  readonly maxDepth: number
  /** Most elements of a top-level array. */
  readonly maxElements: number
  /** Most values in the whole text. */
  readonly maxValues: number
  /** Most members of the top-level object, or of each in the top-level array; 32 unless given. */
  readonly maxMembers?: number
}

/** Fewer bytes are read faster in JavaScript. */
const defaultMinWasmBytes = 512

/**
 * Validates a JSON text while its bytes arrive, just as JSON.parse would (RFC 8259, UTF-8), and indexes its top level. It
 * builds no values and never recurses. 10,000 logs (6 MB) take 1.8 ms, a request of 120 bytes 0.6 us.
 */
export class Scanner {
  /**
   * V8 drops its type feedback about a class when a garbage collection finds no instance, as after a pause: from then on
   * each scan would take three times as long.
   */
  static readonly feedbackAnchor = new Scanner({ maxDepth: 1, maxElements: 1, maxValues: 1 })
  /** Set as soon as it is known; no byte is read after that. */
  error: ScanError | undefined = undefined
  /** A byte of the text is not ASCII. */
  hasNonAscii = false
  /** The items of the top level found so far. */
  readonly items: readonly IndexedItem[]
  readonly #limits: ScanLimits
  readonly #minWasmBytes: number
  readonly #index: TopLevelIndex
  #state: State = state.value
  /** For each array and object around the next byte, outermost first: is it an object? */
  readonly #containerIsObject: boolean[] = []
  #depth = 0
  /** Bytes in earlier chunks. */
  #chunkOffset = 0
  #valueCount = 0
  /** The string being read is a member's name. */
  #isName = false
  #nameStart = 0
  /** Of the chunk, when the chunk is long. */
  #view: DataView | undefined

  constructor(limits: ScanLimits, minWasmBytes = defaultMinWasmBytes) {
    this.#limits = limits
    this.#minWasmBytes = limits.maxValues === Infinity && limits.maxDepth <= maxWasmDepth ? minWasmBytes : Infinity
    this.#index = new TopLevelIndex(limits.maxElements, limits.maxMembers ?? defaultMaxMembers)
    this.items = this.#index.items
  }

  /** The top-level value is an array, and the items are its elements. */
  get isArray(): boolean {
    return this.#index.isArray
  }

  /** The member of the last item whose value has begun and not ended. */
  get openMember(): IndexedMember | undefined {
    return this.#index.openMember
  }

  /** Takes the next bytes; false once the text is refused. */
  push(chunk: Uint8Array): boolean {
    this.#view = chunk.length < minDataViewBytes ? undefined : new DataView(chunk.buffer, chunk.byteOffset, chunk.length)
    let at = 0
    while (at < chunk.length && this.#state !== state.failed) {
      const valuesEnd = this.#readValues(chunk, at)
      if (valuesEnd > at) at = valuesEnd
      else if (this.#state === state.string) at = this.#readString(chunk, at)
      else if (this.#state <= state.after) at = this.#readStructure(chunk, at)
      else if (this.#readScalarByte(chunk[at]!, this.#chunkOffset + at)) at++
    }
    this.#chunkOffset += chunk.length
    return this.error === undefined
  }

  /** Reads long values of members by WebAssembly, up to where their container ends or a byte needs to be judged here. */
  #readValues(chunk: Uint8Array, from: number): number {
    const baseDepth = this.#index.memberDepth + 1
    if (this.#depth < baseDepth || chunk.length - from < this.#minWasmBytes) return from
    const position = {
      state: this.#state,
      depth: this.#depth,
      isName: this.#isName,
    }
    const found = getWasmScanner()?.scan(chunk, from, position, this.#containerIsObject, baseDepth, this.#limits.maxDepth)
    if (found === undefined) return from
    const end = from + found.byteLength
    this.#state = found.state
    this.#depth = found.depth
    this.#isName = found.isName
    this.#index.addChildren(found.childCount)
    this.hasNonAscii ||= found.hasNonAscii
    return end
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

  #enter(next: State): void {
    if (next === state.failed) this.#fail('syntax')
    else this.#state = next
  }

  #readString(chunk: Uint8Array, from: number): number {
    const at = skipPlainBytes(chunk, this.#view, from)
    return at === chunk.length ? at : this.#readStringEnd(chunk[at]!, at)
  }

  #readStringEnd(byte: number, at: number): number {
    if (byte === ascii.quote) this.#endString(this.#chunkOffset + at)
    else this.#enter(nextState(state.string, byte))
    if (byte >= 0x80) this.hasNonAscii = true
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
        return this.#enter(nextState(state.colon, byte))
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
    const next = nextState(this.#state, byte)
    if (next === state.after) this.#endValue(offset + 1)
    else if (next === state.failed && canEndNumber(this.#state)) {
      this.#endValue(offset)
      return false
    } else this.#enter(next)
    return true
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
      default:
        return this.#enter(nextState(state.value, byte))
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
}
