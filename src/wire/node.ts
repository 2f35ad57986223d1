import type { Json, Request } from '../call.ts'
import { Pieces, wholeOf } from '../pieces.ts'
import type { Text } from '../pieces.ts'
import type { RpcError } from '../reply.ts'
import { Arrival } from './arrival.ts'
import { ascii } from './grammar.ts'
import { maxParsed } from './limits.ts'
import type { Fault } from './limits.ts'
import { maxMembers } from './outline.ts'
import type { Member } from './outline.ts'
import { Scanner } from './scan.ts'
import { latin1, readName, utf8 } from './text.ts'

/** The request to a node, written anew from what was checked: what the caller wrote beside that never gets there. */
export const writeRequest = (id: number, { method, params }: Request): string =>
  `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`

/** What a node's answer comes to. */
export type Reading =
  | {
      readonly kind: 'result'
      /** The result as the node wrote it; a part of the answer, not a copy. */
      readonly text: Text
      /** How many elements it has, if it is an array. */
      readonly count: number | undefined
      /** Nethermind's `_streamStatus` (truncated, timeout or failed): the result ends early. */
      readonly partial: string | undefined
    }
  | { readonly kind: 'error'; readonly error: RpcError }
  /** Not an answer to the request; `reason` holds nothing of what the node wrote. */
  | { readonly kind: 'garbage'; readonly reason: string }

/** A node's answer, judged while it arrives: 0.3 ms for each 64 KiB. */
export class NodeAnswer {
  readonly #scanner = new Scanner({ depth: maxDepth, elements: 1, values: Infinity })
  readonly #arrival: Arrival

  /** `expected`: how long it will be, where the node announced it. */
  constructor(expected = 0) {
    this.#arrival = new Arrival(expected)
  }

  /** Bytes so far. */
  get length(): number {
    return this.#arrival.length
  }

  /** Takes the next bytes, which must not change afterwards; false when they cannot become an answer any more. */
  push(chunk: Uint8Array): boolean {
    if (chunk.length === 0) return true
    this.#arrival.push(chunk)
    return this.#scanner.push(chunk)
  }

  /** The answer is complete; `id` is that of the request. */
  read(id: number): Reading {
    const fault = this.#scanner.end()
    if (fault !== undefined) return garbage(faults[fault])
    const members = this.#scanner.isArray ? undefined : this.#scanner.items[0]?.members
    return members === undefined ? garbage('not an object') : readAnswer(this.#arrival.text, members, id)
  }
}

const maxDepth = 512

const garbage = (reason: string): Reading => ({ kind: 'garbage', reason })

const faults: Readonly<Record<Fault, string>> = {
  syntax: 'not JSON',
  depth: `nested deeper than ${maxDepth} levels`,
  members: `more than ${maxMembers} members`,
  elements: 'not an object',
  values: 'too many values',
}

/** Some nodes write `"error":null` beside a result or `"result":null` beside an error: the null counts as absent. */
const readAnswer = (text: Text, members: readonly Member[], id: number): Reading => {
  const parts = findParts(text, members)
  if (parts === undefined) return garbage('a member stands twice')
  const { result, error } = parts
  if (parts.id === undefined) return garbage('no id')
  if (!isWord(text, parts.id, String(id))) return garbage('the id is not that of the request')
  if (error !== undefined && !isNull(text, error)) {
    if (result !== undefined && !isNull(text, result)) return garbage('both a result and an error')
    return readError(text, error)
  }
  if (result === undefined) return garbage('neither a result nor an error')
  return {
    kind: 'result',
    text: text.subarray(result.start, result.end),
    count: text.at(result.start) === ascii.openArray ? result.count : undefined,
    partial: readPartial(text, parts._streamStatus),
  }
}

type PartName = (typeof partNames)[number]
type Parts = { [name in PartName]?: Member }

const partNames = ['id', 'result', 'error', '_streamStatus'] as const

/** In bytes, each character written as \u0000. */
const longestName = 6 * '_streamStatus'.length

const findParts = (text: Text, members: readonly Member[]): Parts | undefined => {
  const parts: Parts = {}
  for (const member of members) {
    const name = nameOf(text, member)
    if (name === undefined) continue
    if (parts[name] !== undefined) return undefined
    parts[name] = member
  }
  return parts
}

/** Compares bytes: to cut the name out as a text takes as long as all else that is read of a short answer. */
const nameOf = (text: Text, { nameStart, nameEnd }: Member): PartName | undefined => {
  const length = nameEnd - nameStart
  const plain = partNames.find(name => name.length === length && standsAt(text, nameStart, name))
  if (plain !== undefined || length > longestName || !wholeOf(text.subarray(nameStart, nameEnd)).includes(ascii.backslash)) return plain
  const written = readName(latin1(text, nameStart, nameEnd))
  return partNames.find(name => name === written)
}

const standsAt = (text: Text, start: number, word: string): boolean => {
  if (text instanceof Pieces) return standsAt(wholeOf(text.subarray(start, start + word.length)), 0, word)
  for (let i = 0; i < word.length; i++) if (text[start + i] !== word.charCodeAt(i)) return false
  return true
}

const isWord = (text: Text, { start, end }: Member, word: string): boolean => end - start === word.length && standsAt(text, start, word)

const isNull = (text: Text, { start }: Member): boolean => text.at(start) === ascii.n

const readError = (text: Text, { start, end }: Member): Reading => {
  if (end - start > maxError || !mayParse(wholeOf(text.subarray(start, end)))) return garbage('the error is too large')
  // Object() makes scalars and null look like an object without members.
  const { code, message, data }: { [name: string]: Json } = Object(JSON.parse(utf8(text, start, end)))
  if (typeof code !== 'number' || !Number.isSafeInteger(code)) return garbage('the error has no integer code')
  if (typeof message !== 'string') return garbage('the error has no message')
  return { kind: 'error', error: data === undefined ? { code, message } : { code, message, data } }
}

const maxError = 1_048_576

const mayParse = (text: Uint8Array): boolean => new Scanner({ depth: maxDepth, elements: maxParsed, values: maxParsed }).push(text)

const readPartial = (text: Text, member: Member | undefined): string | undefined =>
  member === undefined || isNull(text, member)
    ? undefined
    : latin1(text, member.start, Math.min(member.end, member.start + 32)).replaceAll('"', '')
