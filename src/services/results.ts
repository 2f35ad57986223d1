import { setImmediate } from 'node:timers/promises'
import { ChunkedBytes, chunksOf, concatChunks, maxBytesPerTurn, toBuffer, toLatin1 } from '../json/chunked-bytes.ts'
import type { RawJson } from '../json/chunked-bytes.ts'
import { ascii, isSpace } from '../json/grammar.ts'
import { Scanner } from '../json/scanner.ts'
import type { IndexedItem, IndexedMember } from '../json/top-level-index.ts'

/** One object of a result, as the node wrote it. */
export interface ResultObject {
  /** A part of the result, not a copy. */
  readonly rawJson: RawJson
  /** The JSON text of each named member, in that order; undefined where there is none with exactly this name. */
  readonly members: readonly (string | undefined)[]
}

/** A member that each object of an array must have. */
export interface ExpectedMember {
  readonly name: string
  /** Whether the value is accepted whose JSON text begins at `start`; the bytes go on behind it. */
  accepts(bytes: Uint8Array, start: number): boolean
}

/** Splits and joins results without parsing them. */
export interface Results {
  /** The result as an object, or each object of its array, with the named members; undefined when one is no object. */
  extractObjects(result: RawJson, members: readonly string[]): readonly ResultObject[] | undefined
  /** The same for a long array: 10,000 logs (6 MB) take about 40 ms, and the event loop gets its turn after each MiB. */
  extractObjectsAsync(result: RawJson, members: readonly string[]): Promise<readonly ResultObject[] | undefined>
  /**
   * The JSON text of each named member of the result, an object, or of the first object of an array. It is read up to the last
   * of them, which mostly stand at its begin.
   */
  findMembers(result: RawJson, members: readonly string[]): readonly (string | undefined)[]
  /** Whether each of the `count` objects of an array has these members, each with an accepted value: 10,000 logs (6 MB) take 1 ms. */
  everyObjectHas(result: RawJson, count: number, members: readonly ExpectedMember[]): Promise<boolean>
  /** The array of these elements, in this order; one of them may also be several elements with commas between them. */
  joinArray(elements: readonly RawJson[]): Promise<Uint8Array>
  /** The result in one array of bytes; a long result is copied, with turns of the event loop after each MiB. */
  toContiguous(result: RawJson): Promise<Uint8Array>
}

export const results: Results = {
  extractObjects(result, names) {
    const scanner = createScanner()
    for (const chunk of chunksOf(result)) scanner.push(chunk)
    return objectsOf(result, scanner, names)
  },
  async extractObjectsAsync(result, names) {
    const scanner = createScanner()
    let bytesThisTurn = 0
    for (const chunk of chunksOf(result)) {
      for (let at = 0; at < chunk.length; at += maxBytesPerTurn) {
        const part = chunk.subarray(at, at + maxBytesPerTurn)
        scanner.push(part)
        bytesThisTurn += part.length
        if (bytesThisTurn < maxBytesPerTurn) continue
        bytesThisTurn = 0
        await setImmediate()
      }
    }
    return objectsOf(result, scanner, names)
  },
  findMembers(result, names) {
    const scanner = createScanner()
    const find = () => membersOf(result, scanner.items[0]?.members, names)
    for (const chunk of chunksOf(result)) {
      for (let at = 0; at < chunk.length; at += bytesPerSearch) {
        scanner.push(chunk.subarray(at, at + bytesPerSearch))
        const found = find()
        if (!found.includes(undefined) || scanner.items.length > 1) return found
      }
    }
    return find()
  },
  async everyObjectHas(result, count, members) {
    if (count === 0 || new MemberSearch(members).countIn(result) === count * members.length) return true
    const objects = await results.extractObjectsAsync(
      result,
      members.map(({ name }) => name),
    )
    return (
      objects?.every(object => object.members.every((text, i) => text !== undefined && members[i]?.accepts(Buffer.from(text), 0))) === true
    )
  },
  joinArray(elements) {
    const chunks = elements.flatMap((element, i) => (i === 0 ? chunksOf(element) : [comma, ...chunksOf(element)]))
    return concatChunks(
      [openBracket, ...chunks, closeBracket],
      chunks.reduce((sum, chunk) => sum + chunk.length, 2),
    )
  },
  toContiguous: async result => (result instanceof ChunkedBytes ? concatChunks(result.chunks, result.byteLength) : result),
}

const [openBracket, comma, closeBracket] = ['[', ',', ']'].map(text => Buffer.from(text)) as [Buffer, Buffer, Buffer]

/** Blocks of some networks have more than 30 members. */
const scanLimits = { maxDepth: 512, maxElements: Infinity, maxValues: Infinity, maxMembers: 256 }

/** findMembers() looks after so many bytes whether it has them all. */
const bytesPerSearch = 2_048

const createScanner = (): Scanner => new Scanner(scanLimits)

const objectsOf = (result: RawJson, scanner: Scanner, names: readonly string[]): readonly ResultObject[] | undefined =>
  scanner.end() !== undefined || scanner.items.some(item => item.members === undefined)
    ? undefined
    : scanner.items.map(item => objectOf(result, item, names))

const objectOf = (result: RawJson, { start, end, members = [] }: IndexedItem, names: readonly string[]): ResultObject => ({
  rawJson: result.subarray(start, end),
  members: membersOf(result, members, names),
})

const membersOf = (result: RawJson, members: readonly IndexedMember[] = [], names: readonly string[]): ResultObject['members'] =>
  names.map(name => {
    const member = members.find(each => isNamed(result, each, name))
    return member && toLatin1(result, member.start, member.end)
  })

/** Compares lengths first: few names become strings. */
const isNamed = (result: RawJson, { nameStart, nameEnd }: IndexedMember, name: string): boolean =>
  nameEnd - nameStart === name.length && toLatin1(result, nameStart, nameEnd) === name

/**
 * Searches an array of objects for the names of members, and looks at the value behind each. The objects of a node have
 * their members in one order, and most are as long as the one before: a name is looked for where it is then, before it is
 * searched. What the search does not expect ends it, and the count is wrong: only a parser can tell then.
 */
class MemberSearch {
  readonly #members: { readonly name: Buffer; readonly accepts: ExpectedMember['accepts']; distance: number }[]
  #foundCount = 0
  /** Where the last name was, in the whole result. */
  #lastOffset = 0

  constructor(members: readonly ExpectedMember[]) {
    this.#members = members.map(member => ({ name: Buffer.from(`"${member.name}"`), accepts: member.accepts.bind(member), distance: 0 }))
  }

  /** How many names have accepted values. */
  countIn(result: RawJson): number {
    const chunks = chunksOf(result)
    this.#sortByPosition(toBuffer(chunks[0] ?? new Uint8Array()))
    let offset = 0
    for (const chunk of chunks) {
      const border = offset + Math.max(0, chunk.length - maxMemberBytes)
      const end = offset + chunk.length
      if (!this.#search(toBuffer(chunk), offset, border)) break
      if (!this.#search(toBuffer(result.subarray(border, end + maxMemberBytes)), border, end)) break
      offset = end
    }
    return this.#foundCount
  }

  #sortByPosition(bytes: Buffer): void {
    this.#members.sort((a, b) => bytes.indexOf(a.name) - bytes.indexOf(b.name))
  }

  /** Searches for names that begin before `limit`; both offsets are those in the whole result. */
  #search(bytes: Buffer, offset: number, limit: number): boolean {
    for (let at = 0; ; ) {
      const member = this.#members[this.#foundCount % this.#members.length]
      if (member === undefined) return false
      const expected = this.#lastOffset + member.distance - offset
      const found = expected >= at && isAt(bytes, expected, member.name) ? expected : bytes.indexOf(member.name, at)
      if (found < 0 || offset + found >= limit) return true
      const value = valueStartOf(bytes, found + member.name.length)
      if (value === undefined || !member.accepts(bytes, value)) return false
      member.distance = offset + found - this.#lastOffset
      this.#lastOffset = offset + found
      this.#foundCount += 1
      at = value
    }
  }
}

/** Most bytes of a name and a value that is looked at: a block hash. */
const maxMemberBytes = 128

const isAt = (bytes: Uint8Array, at: number, name: Uint8Array): boolean => {
  for (let i = 0; i < name.length; i++) if (bytes[at + i] !== name[i]) return false
  return true
}

/** Undefined where the text before it was no name. */
const valueStartOf = (bytes: Uint8Array, nameEnd: number): number | undefined => {
  const colon = skipSpace(bytes, nameEnd)
  return bytes[colon] === ascii.colon ? skipSpace(bytes, colon + 1) : undefined
}

const skipSpace = (bytes: Uint8Array, from: number): number => {
  let at = from
  while (isSpace(bytes[at] ?? 0)) at++
  return at
}
