import { setImmediate } from 'node:timers/promises'
import { join } from '../wire/join.ts'
import type { Item, Member } from '../wire/outline.ts'
import { Scanner } from '../wire/scan.ts'
import { latin1 } from '../wire/text.ts'

/** One object of a result, as the node wrote it. */
export interface Part {
  /** A part of the result, not a copy. */
  readonly bytes: Uint8Array
  /** The JSON text of each member asked for, in that order; undefined where there is none of this spelling. */
  readonly members: readonly (string | undefined)[]
}

/** Takes results apart and puts them together without parsing them. */
export interface Results {
  /** The object that a result is, or each of the array that it is, with some members; undefined when one is no object. */
  parts(result: Uint8Array, members: readonly string[]): readonly Part[] | undefined
  /** The same for a long array: 10,000 logs (6 MB) take about 40 ms, and others get their turn in between. */
  longParts(result: Uint8Array, members: readonly string[]): Promise<readonly Part[] | undefined>
  /** The array of these elements, in this order; an element may also be several with commas between them. */
  array(elements: readonly Uint8Array[]): Promise<Uint8Array>
}

export const results: Results = {
  parts(result, names) {
    const scanner = newScanner()
    scanner.push(result)
    return partsOf(result, scanner, names)
  },
  async longParts(result, names) {
    const scanner = newScanner()
    for (let at = 0; at < result.length; at += slice) {
      if (at > 0) await setImmediate()
      scanner.push(result.subarray(at, at + slice))
    }
    return partsOf(result, scanner, names)
  },
  array(elements) {
    const chunks = elements.flatMap((element, i) => i === 0 ? [element] : [comma, element])
    return join([open, ...chunks, close], chunks.reduce((sum, chunk) => sum + chunk.length, 2))
  },
}

const [open, comma, close] = ['[', ',', ']'].map(mark => Buffer.from(mark)) as [Buffer, Buffer, Buffer]

/** Blocks of some networks have more than 30 members. */
const newScanner = (): Scanner => new Scanner({ depth: 512, elements: Infinity, values: Infinity, members: 256 })

const slice = 1_048_576

const partsOf = (result: Uint8Array, scanner: Scanner, names: readonly string[]): readonly Part[] | undefined =>
  scanner.end() !== undefined || scanner.items.some(item => item.members === undefined) ? undefined
  : scanner.items.map(item => partOf(result, item, names))

const partOf = (result: Uint8Array, { start, end, members = [] }: Item, names: readonly string[]): Part => ({
  bytes: result.subarray(start, end),
  members: names.map(name => {
    const member = members.find(one => isNamed(result, one, name))
    return member && latin1(result, member.start, member.end)
  }),
})

/** Most names are of another length: a text is made of few. */
const isNamed = (result: Uint8Array, { nameStart, nameEnd }: Member, name: string): boolean =>
  nameEnd - nameStart === name.length && latin1(result, nameStart, nameEnd) === name
