import { setImmediate } from 'node:timers/promises'
import { Pieces, piecesOf } from '../pieces.ts'
import type { Text } from '../pieces.ts'
import { join } from '../wire/join.ts'
import type { Item, Member } from '../wire/outline.ts'
import { Scanner } from '../wire/scan.ts'
import { latin1 } from '../wire/text.ts'

/** One object of a result, as the node wrote it. */
export interface Part {
  /** A part of the result, not a copy. */
  readonly text: Text
  /** The JSON text of each member asked for, in that order; undefined where there is none of this spelling. */
  readonly members: readonly (string | undefined)[]
}

/** Takes results apart and puts them together without parsing them. */
export interface Results {
  /** The object that a result is, or each of the array that it is, with some members; undefined when one is no object. */
  parts(result: Text, members: readonly string[]): readonly Part[] | undefined
  /** The same for a long array: 10,000 logs (6 MB) take about 40 ms, and others get their turn in between. */
  longParts(result: Text, members: readonly string[]): Promise<readonly Part[] | undefined>
  /** The array of these elements, in this order; an element may also be several with commas between them. */
  array(elements: readonly Text[]): Promise<Uint8Array>
  /** A long result in one array. */
  whole(result: Text): Promise<Uint8Array>
}

export const results: Results = {
  parts(result, names) {
    const scanner = newScanner()
    for (const piece of piecesOf(result)) scanner.push(piece)
    return partsOf(result, scanner, names)
  },
  async longParts(result, names) {
    const scanner = newScanner()
    let turn = 0
    for (const piece of piecesOf(result)) {
      for (let at = 0; at < piece.length; at += slice) {
        scanner.push(piece.subarray(at, at + slice))
        turn += Math.min(slice, piece.length - at)
        if (turn < slice) continue
        turn = 0
        await setImmediate()
      }
    }
    return partsOf(result, scanner, names)
  },
  array(elements) {
    const chunks = elements.flatMap((element, i) => (i === 0 ? piecesOf(element) : [comma, ...piecesOf(element)]))
    return join(
      [open, ...chunks, close],
      chunks.reduce((sum, chunk) => sum + chunk.length, 2),
    )
  },
  whole: async result => (result instanceof Pieces ? join(result.list, result.byteLength) : result),
}

const [open, comma, close] = ['[', ',', ']'].map(mark => Buffer.from(mark)) as [Buffer, Buffer, Buffer]

/** Blocks of some networks have more than 30 members. */
const newScanner = (): Scanner => new Scanner({ depth: 512, elements: Infinity, values: Infinity, members: 256 })

const slice = 1_048_576

const partsOf = (result: Text, scanner: Scanner, names: readonly string[]): readonly Part[] | undefined =>
  scanner.end() !== undefined || scanner.items.some(item => item.members === undefined)
    ? undefined
    : scanner.items.map(item => partOf(result, item, names))

const partOf = (result: Text, { start, end, members = [] }: Item, names: readonly string[]): Part => ({
  text: result.subarray(start, end),
  members: names.map(name => {
    const member = members.find(one => isNamed(result, one, name))
    return member && latin1(result, member.start, member.end)
  }),
})

/** Most names are of another length: a text is made of few. */
const isNamed = (result: Text, { nameStart, nameEnd }: Member, name: string): boolean =>
  nameEnd - nameStart === name.length && latin1(result, nameStart, nameEnd) === name
