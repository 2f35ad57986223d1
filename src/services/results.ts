import { setImmediate } from 'node:timers/promises'
import { ByteView } from '../json/byte-pattern.ts'
import { ChunkedBytes, chunksOf, concatChunks, maxBytesPerTurn, toLatin1 } from '../json/chunked-bytes.ts'
import type { RawJson } from '../json/chunked-bytes.ts'
import { Scanner } from '../json/scanner.ts'
import type { IndexedItem, IndexedMember } from '../json/top-level-index.ts'
import { MemberSearch } from './member-search.ts'
import type { ExpectedMember } from './member-search.ts'

/** One object of a result, as the node wrote it. */
interface ResultObject {
  /** A part of the result, not a copy. */
  readonly rawJson: RawJson
  /** The JSON text of each named member, in that order; undefined where there is none with exactly this name. */
  readonly members: readonly (string | undefined)[]
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
  /**
   * Whether each of the `count` objects of an array has these members, each with an accepted value: 10,000 logs (6 MB) take 4 to 8 ms.
   * `search`: a search for them that was given the response as it came, which takes 0.6 to 0.9 ms.
   */
  everyObjectHas(result: RawJson, count: number, members: readonly ExpectedMember[], search?: MemberSearch): Promise<boolean>
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
  async everyObjectHas(result, count, members, search = searchIn(result, members)) {
    if (count === 0 || members.length === 0 || search.end() === count * members.length) return true
    const objects = await results.extractObjectsAsync(
      result,
      members.map(({ name }) => name),
    )
    return (
      objects?.every(object =>
        object.members.every((text, i) => text !== undefined && members[i]?.accepts(new ByteView(Buffer.from(text)), 0)),
      ) === true
    )
  },
  joinArray(elements) {
    const chunks = elements.flatMap((element, i) => (i === 0 ? chunksOf(element) : [comma, ...chunksOf(element)]))
    return concatChunks(
      [openBracket, ...chunks, closeBracket],
      chunks.reduce((sum, chunk) => sum + chunk.length, 2),
    )
  },
  toContiguous: async result => (result instanceof ChunkedBytes ? concatChunks(chunksOf(result), result.byteLength) : result),
}

const [openBracket, comma, closeBracket] = ['[', ',', ']'].map(text => Buffer.from(text)) as [Buffer, Buffer, Buffer]

/** Blocks of some networks have more than 30 members. */
const scanLimits = { maxDepth: 512, maxElements: Infinity, maxValues: Infinity, maxMembers: 256 }

/** findMembers() looks after so many bytes whether it has them all. */
const bytesPerSearch = 2_048

const createScanner = (): Scanner => new Scanner(scanLimits)

const searchIn = (result: RawJson, members: readonly ExpectedMember[]): MemberSearch => {
  const search = new MemberSearch(members)
  for (const chunk of chunksOf(result)) search.push(chunk)
  return search
}

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
