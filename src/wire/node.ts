import type { Json, Request } from '../call.ts'
import type { RpcError } from '../reply.ts'
import { ascii } from './grammar.ts'
import { join } from './join.ts'
import { maxMembers } from './outline.ts'
import type { Member } from './outline.ts'
import { maxParsed, Scanner } from './scan.ts'
import type { Fault } from './scan.ts'
import { latin1, readName, utf8 } from './text.ts'

/** The request to a node, written anew from what was checked: what the caller wrote beside that never gets there. */
export const writeRequest = (id: number, { method, params }: Request): string =>
  `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`

/** What a node's answer comes to. */
export type Reading =
  | {
    readonly kind: 'result'
    /** The result as the node wrote it; a part of the answer, not a copy. */
    readonly bytes: Uint8Array
    /** How many elements it has, if it is an array. */
    readonly count: number | undefined
    /** Nethermind's `_streamStatus` (truncated, timeout or failed): the result ends early. */
    readonly partial: string | undefined
  }
  | { readonly kind: 'error', readonly error: RpcError }
  /** Not an answer to the request; `reason` holds nothing of what the node wrote. */
  | { readonly kind: 'garbage', readonly reason: string }

/** A node's answer, judged while it arrives: 0.3 ms for each 64 KiB. */
export class NodeAnswer {
  /** Bytes so far. */
  length = 0
  readonly #scanner = new Scanner({ depth: maxDepth, elements: 1, values: Infinity })
  readonly #chunks: Uint8Array[] = []
  readonly #expected: number
  /** All of it, in one piece; filled as it arrives. */
  #whole: Uint8Array | undefined

  /** `expected`, where the node announced it, is how long it will be: a long answer is then put together as it comes. */
  constructor(expected = 0) {
    this.#expected = expected
  }

  /** Takes the next bytes, which must not change afterwards; false when they cannot become an answer any more. */
  push(chunk: Uint8Array): boolean {
    if (chunk.length === 0) return true
    if (this.#whole !== undefined || chunk.length < this.#expected) this.#copy(chunk)
    else this.#chunks.push(chunk)
    this.length += chunk.length
    return this.#scanner.push(chunk)
  }

  /** The answer is complete; `id` is that of the request. At once, unless it is long and came unannounced. */
  read(id: number): Reading | Promise<Reading> {
    const fault = this.#scanner.end()
    if (fault !== undefined) return garbage(faults[fault])
    const members = this.#scanner.isArray ? undefined : this.#scanner.items[0]?.members
    if (members === undefined) return garbage('not an object')
    const bytes = this.#whole ?? (this.#chunks.length === 1 ? this.#chunks[0] : undefined)
    if (bytes !== undefined) return readAnswer(bytes, members, id)
    return join(this.#chunks, this.length).then(joined => readAnswer(joined, members, id))
  }

  #copy(chunk: Uint8Array): void {
    this.#whole ??= Buffer.allocUnsafeSlow(this.#expected)
    this.#whole.set(chunk, this.length)
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
const readAnswer = (bytes: Uint8Array, members: readonly Member[], id: number): Reading => {
  const parts = findParts(bytes, members)
  if (parts === undefined) return garbage('a member stands twice')
  const { result, error } = parts
  if (parts.id === undefined) return garbage('no id')
  if (!isText(bytes, parts.id, String(id))) return garbage('the id is not that of the request')
  if (error !== undefined && !isNull(bytes, error)) {
    if (result !== undefined && !isNull(bytes, result)) return garbage('both a result and an error')
    return readError(bytes, error)
  }
  if (result === undefined) return garbage('neither a result nor an error')
  return {
    kind: 'result',
    bytes: bytes.subarray(result.start, result.end),
    count: bytes[result.start] === ascii.openArray ? result.count : undefined,
    partial: readPartial(bytes, parts._streamStatus),
  }
}

type PartName = typeof partNames[number]
type Parts = { [name in PartName]?: Member }

const partNames = ['id', 'result', 'error', '_streamStatus'] as const

/** In bytes, each character written as \u0000. */
const longestName = 6 * '_streamStatus'.length

const findParts = (bytes: Uint8Array, members: readonly Member[]): Parts | undefined => {
  const parts: Parts = {}
  for (const member of members) {
    const name = nameOf(bytes, member)
    if (name === undefined) continue
    if (parts[name] !== undefined) return undefined
    parts[name] = member
  }
  return parts
}

/** Compares bytes: to cut the name out as a text takes as long as all else that is read of a short answer. */
const nameOf = (bytes: Uint8Array, { nameStart, nameEnd }: Member): PartName | undefined => {
  const length = nameEnd - nameStart
  const plain = partNames.find(name => name.length === length && standsAt(bytes, nameStart, name))
  if (plain !== undefined || length > longestName || !bytes.subarray(nameStart, nameEnd).includes(ascii.backslash)) return plain
  const written = readName(latin1(bytes, nameStart, nameEnd))
  return partNames.find(name => name === written)
}

const standsAt = (bytes: Uint8Array, start: number, text: string): boolean => {
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text.charCodeAt(i)) return false
  return true
}

const isText = (bytes: Uint8Array, { start, end }: Member, text: string): boolean =>
  end - start === text.length && standsAt(bytes, start, text)

const isNull = (bytes: Uint8Array, { start }: Member): boolean => bytes[start] === ascii.n

const readError = (bytes: Uint8Array, { start, end }: Member): Reading => {
  if (!mayParse(bytes.subarray(start, end))) return garbage('the error is too large')
  // Object() makes scalars and null look like an object without members.
  const { code, message, data }: { [name: string]: Json } = Object(JSON.parse(utf8(bytes, start, end)))
  if (typeof code !== 'number' || !Number.isSafeInteger(code)) return garbage('the error has no integer code')
  if (typeof message !== 'string') return garbage('the error has no message')
  return { kind: 'error', error: data === undefined ? { code, message } : { code, message, data } }
}

const maxError = 1_048_576

const mayParse = (text: Uint8Array): boolean =>
  text.length <= maxError && new Scanner({ depth: maxDepth, elements: maxParsed, values: maxParsed }).push(text)

const readPartial = (bytes: Uint8Array, member: Member | undefined): string | undefined =>
  member === undefined || isNull(bytes, member) ? undefined
  : latin1(bytes, member.start, Math.min(member.end, member.start + 32)).replaceAll('"', '')
