import { BytePattern, ByteView } from '../json/byte-pattern.ts'
import { ascii, isSpace } from '../json/grammar.ts'

/** A member that each object of an array must have. */
export interface ExpectedMember {
  readonly name: string
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
  accepts(bytes, start) {
    if (!hexPrefix.isAt(bytes, start)) return false
    let [number, at] = [0, start + hexPrefix.length]
    for (let digit = hexDigitAt(bytes, at); digit !== undefined; digit = hexDigitAt(bytes, ++at)) number = number * 16 + digit
    return bytes.at(at) === ascii.quote && at > start + hexPrefix.length && number >= from && number <= to
  },
})

/**
 * Searches an array of objects for the names of members, and looks at the value behind each. The objects of a node have
 * their members in one order, and most are as long as the one before: a name is looked for where it is then, before it is
 * searched. What the search does not expect ends it, and the count is wrong: only a parser can tell then.
 */
export class MemberSearch {
  readonly #members: { readonly name: string; readonly pattern: BytePattern; readonly member: ExpectedMember; distance: number }[]
  #foundCount = 0
  /** Where the last name was, in the whole text. */
  #lastOffset = 0
  /** The end of what was searched: a name that begins there may go on in the next chunk. */
  #tail = Buffer.alloc(0)
  #tailOffset = 0
  #isOver = false

  constructor(members: readonly ExpectedMember[]) {
    this.#members = members.map(member => {
      const name = `"${member.name}"`
      return { name, pattern: new BytePattern(name), member, distance: 0 }
    })
    this.#isOver = members.length === 0
  }

  /** The next bytes of the text. Those that have just come are in the cache of the CPU: what they cost, a search afterwards costs twice. */
  push(chunk: Uint8Array): void {
    if (this.#isOver) return
    const [offset, isLong] = [this.#tailOffset + this.#tail.length, chunk.length > maxMemberBytes]
    const border = Buffer.concat([this.#tail, chunk.subarray(0, maxMemberBytes)])
    this.#search(border, this.#tailOffset, isLong ? offset : this.#tailOffset + border.length - maxMemberBytes)
    if (isLong) this.#search(chunk, offset, offset + chunk.length - maxMemberBytes)
    this.#tail = Buffer.from((isLong ? chunk : border).subarray(-maxMemberBytes))
    this.#tailOffset = offset + chunk.length - this.#tail.length
  }

  /** How many names had accepted values in the whole text. */
  end(): number {
    this.#search(this.#tail, this.#tailOffset, this.#tailOffset + this.#tail.length)
    this.#isOver = true
    return this.#foundCount
  }

  /** Searches for names that begin before `limit`; both offsets are those in the whole text. */
  #search(text: Uint8Array, offset: number, limit: number): void {
    const bytes = new ByteView(text)
    if (this.#foundCount === 0) this.#members.sort((a, b) => positionIn(bytes, a.name) - positionIn(bytes, b.name))
    for (let at = 0; !this.#isOver; ) {
      const expected = this.#members[this.#foundCount % this.#members.length]!
      const { name, pattern, member } = expected
      const likely = this.#lastOffset + expected.distance - offset
      const found = likely >= at && pattern.isAt(bytes, likely) ? likely : bytes.bytes.indexOf(name, at)
      if (found < 0 || offset + found >= limit) return
      const value = valueStartOf(bytes, found + pattern.length)
      if (value === undefined || !member.accepts(bytes, value)) return void (this.#isOver = true)
      expected.distance = offset + found - this.#lastOffset
      this.#lastOffset = offset + found
      this.#foundCount += 1
      at = value
    }
  }
}

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
