import { BytePattern, ByteView } from '../json/byte-pattern.ts'
import { ascii, isSpace } from '../json/grammar.ts'
import { WasmMemberSearch } from '../json/wasm-member-search.ts'
import type { SearchedMember } from '../json/wasm-member-search.ts'

/** A member that each object of an array must have. */
export interface ExpectedMember {
  readonly name: string
  /** The accepted values for WebAssembly, which cannot call accepts(). Without them JavaScript searches alone. */
  readonly values?: SearchedMember['values']
  /** Whether the value is accepted whose JSON text begins at `start`; the bytes go on behind it. */
  accepts(bytes: ByteView, start: number): boolean
}

/** A string that is one of these texts, in any case; mostly it is the one that the object before had. */
export const memberIsOneOf = (name: string, texts: readonly string[]): ExpectedMember => {
  const patterns = new Map(texts.map(text => [text.toLowerCase(), new BytePattern(`"${text}"`, { ignoresCase: true })]))
  const lengths = new Set(texts.map(text => text.length))
  let last = patterns.values().next().value
  const find = (bytes: ByteView, start: number): BytePattern | undefined => {
    for (const length of lengths) {
      const text = bytes.bytes.toString('latin1', start + 1, start + 1 + length)
      const pattern = patterns.get(text.toLowerCase())
      if (pattern?.isAt(bytes, start) === true) return pattern
    }
    return undefined
  }
  return {
    name,
    values: { texts },
    accepts(bytes, start) {
      if (last?.isAt(bytes, start) === true) return true
      const found = find(bytes, start)
      last = found ?? last
      return found !== undefined
    },
  }
}

/** A hex number, with 0x, from `from` to `to`. Its bytes are read: as a text each would take 100 ns. */
export const memberIsWithin = (name: string, from: number, to: number): ExpectedMember => ({
  name,
  values: { from, to },
  accepts(bytes, start) {
    if (!hexPrefix.isAt(bytes, start)) return false
    let [number, at] = [0, start + hexPrefix.length]
    for (let digit = hexDigitAt(bytes, at); digit !== undefined; digit = hexDigitAt(bytes, ++at)) number = number * 16 + digit
    return bytes.at(at) === ascii.quote && at > start + hexPrefix.length && number >= from && number <= to
  },
})

/** Shorter chunks are searched faster in JavaScript. */
const defaultMinWasmBytes = 2_048

/**
 * Searches an array of objects for the names of members, and looks at the value behind each. The objects of a node have
 * their members in one order. What the search does not expect ends it, and the count is wrong: only a parser can tell then, which
 * takes 100 ms for 10,000 logs. So each name is searched for from the last value on: where it was in the object before may be another
 * object's, when the objects are of different lengths.
 */
export class MemberSearch {
  readonly #members: { readonly name: string; readonly member: ExpectedMember }[]
  readonly #minWasmBytes: number
  #foundCount = 0
  /** The end of what was searched: a name that begins there may go on in the next chunk. */
  #tail = Buffer.alloc(0)
  #tailOffset = 0
  #isOver = false
  /** Of the members in their order; null where WebAssembly cannot search for them. */
  #wasmSearch: WasmMemberSearch | null | undefined

  constructor(members: readonly ExpectedMember[], minWasmBytes = defaultMinWasmBytes) {
    this.#members = members.map(member => ({ name: `"${member.name}"`, member }))
    this.#minWasmBytes = minWasmBytes
    this.#isOver = members.length === 0
  }

  /** The next bytes of the text. Those that have just come are in the cache of the CPU: what they cost, a search afterwards costs twice. */
  push(chunk: Uint8Array): void {
    if (this.#isOver) return
    const offset = this.#tailOffset + this.#tail.length
    const isLong = chunk.length > maxMemberBytes
    const border = new ByteView(Buffer.concat([this.#tail, chunk.subarray(0, maxMemberBytes)]))
    const searched = isLong ? new ByteView(chunk) : border
    this.#search(border, this.#tailOffset, isLong ? offset : this.#tailOffset + border.length - maxMemberBytes)
    if (isLong) this.#search(searched, offset, offset + chunk.length - maxMemberBytes)
    this.#tail = Buffer.from(searched.bytes.subarray(-maxMemberBytes))
    this.#tailOffset = offset + chunk.length - this.#tail.length
  }

  /** How many names had accepted values in the whole text. */
  end(): number {
    this.#search(new ByteView(this.#tail), this.#tailOffset, this.#tailOffset + this.#tail.length)
    this.#isOver = true
    return this.#foundCount
  }

  get #nextMember() {
    return this.#members[this.#foundCount % this.#members.length]!
  }

  /** Searches for names that begin before `limit`; both offsets are those in the whole text. */
  #search(text: ByteView, offset: number, limit: number): void {
    if (this.#isOver) return
    if (this.#foundCount === 0) this.#members.sort((a, b) => positionIn(text, a.name) - positionIn(text, b.name))
    const usesWasm = text.length >= this.#minWasmBytes && WasmMemberSearch.isInMemory(text.bytes)
    for (let at: number | undefined = 0; at !== undefined; ) {
      if (usesWasm) at = this.#skipAccepted(text.bytes, offset, limit, at)
      if (at !== undefined) at = this.#findNext(text, offset, limit, at)
    }
  }

  /** Finds one name from `at` on. Returns where its value is; undefined where there is none before `limit`, or the search is over. */
  #findNext(bytes: ByteView, offset: number, limit: number, at: number): number | undefined {
    const { name, member } = this.#nextMember
    const found = bytes.bytes.indexOf(name, at)
    if (found < 0 || offset + found >= limit) return undefined
    const value = valueStartOf(bytes, found + name.length)
    if (value === undefined || !member.accepts(bytes, value)) {
      this.#isOver = true
      return undefined
    }
    this.#foundCount += 1
    return value
  }

  /** The same by WebAssembly for all names up to one whose value it does not accept; undefined where there is none. */
  #skipAccepted(text: Uint8Array, offset: number, limit: number, at: number): number | undefined {
    // The order of the members is known then.
    if (this.#foundCount === 0) return at
    this.#wasmSearch ??= WasmMemberSearch.create(this.#members.map(({ member }) => searchedMemberOf(member))) ?? null
    if (this.#wasmSearch === null) return at
    const memberIndex = this.#foundCount % this.#members.length
    const { foundCount, position, needsJudgment } = this.#wasmSearch.search(text, limit - offset, { position: at, memberIndex })
    this.#foundCount += foundCount
    return needsJudgment ? position : undefined
  }
}

const searchedMemberOf = ({ name, values }: ExpectedMember): SearchedMember | undefined => values && { name, values }

/** A name that has not come yet stands behind those that have. */
const positionIn = ({ bytes, length }: ByteView, name: string): number => {
  const position = bytes.indexOf(name)
  return position < 0 ? length : position
}

/** Most bytes of a name and a value that is looked at: a block hash. */
const maxMemberBytes = 128

/** Undefined where the text before it was no name. */
const valueStartOf = (bytes: ByteView, nameEnd: number): number | undefined => {
  const colon = skipSpace(bytes, nameEnd)
  return bytes.at(colon) === ascii.colon ? skipSpace(bytes, colon + 1) : undefined
}

const skipSpace = (bytes: ByteView, from: number): number => {
  let at = from
  while (isSpace(bytes.at(at))) at++
  return at
}

const hexPrefix = new BytePattern('"0x', { ignoresCase: true })

/** The bit 0x20 makes letters small, and digits have it. */
const hexDigitAt = (bytes: ByteView, at: number): number | undefined => {
  const byte = bytes.at(at) | 0x20
  return byte >= 0x30 && byte <= 0x39 ? byte - 0x30 : byte >= 0x61 && byte <= 0x66 ? byte - 0x57 : undefined
}
