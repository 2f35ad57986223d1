import type { Json, Request } from '../plugin/call.ts'
import type { RpcError } from '../plugin/reply.ts'
import { ChunkBuffer, ChunkedBytes, toBuffer, toLatin1, toUtf8, unescapeName } from '../json/chunked-bytes.ts'
import type { RawJson } from '../json/chunked-bytes.ts'
import { ascii } from '../json/grammar.ts'
import { Scanner } from '../json/scanner.ts'
import { defaultMaxMembers, maxParsedValues } from '../json/top-level-index.ts'
import type { IndexedMember, ScanError } from '../json/top-level-index.ts'

/** The request to a node, written anew from what was checked: what the caller wrote beside that never gets there. */
export const serializeRequest = (id: number, { method, params }: Request): string =>
  `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`

/** What a node's answer comes to. */
export type ParsedResponse =
  | {
      readonly kind: 'result'
      /** The result as the node wrote it; a part of the answer, not a copy. */
      readonly result: RawJson
      /** How many elements it has, if it is an array. */
      readonly count: number | undefined
      /** Nethermind's `_streamStatus` (truncated, timeout or failed): the result ends early. */
      readonly streamStatus: string | undefined
    }
  | { readonly kind: 'error'; readonly error: RpcError }
  /** Not an answer to the request; `reason` holds nothing of what the node wrote. */
  | { readonly kind: 'garbage'; readonly reason: string }

/** A node's answer, judged while it arrives: 0.3 ms for each 64 KiB. */
export class ResponseParser {
  readonly #scanner = new Scanner({ maxDepth, maxElements: 1, maxValues: Infinity })
  readonly #buffer: ChunkBuffer

  /** `expected`: how long it will be, where the node announced it. */
  constructor(expectedBytes = 0) {
    this.#buffer = new ChunkBuffer(expectedBytes)
  }

  /** Bytes so far. */
  get byteLength(): number {
    return this.#buffer.byteLength
  }

  /** Takes the next bytes, which must not change afterwards; false when they cannot become an answer any more. */
  push(chunk: Uint8Array): boolean {
    if (chunk.length === 0) return true
    this.#buffer.push(chunk)
    return this.#scanner.push(chunk)
  }

  /** The answer is complete; `id` is that of the request. */
  finish(id: number): ParsedResponse {
    const error = this.#scanner.end()
    if (error !== undefined) return invalidResponse(scanErrorReasons[error])
    const members = this.#scanner.isArray ? undefined : this.#scanner.items[0]?.members
    return members === undefined ? invalidResponse('not an object') : parseMembers(this.#buffer.rawJson, members, id)
  }
}

const maxDepth = 512

const invalidResponse = (reason: string): ParsedResponse => ({ kind: 'garbage', reason })

const scanErrorReasons: Readonly<Record<ScanError, string>> = {
  syntax: 'not JSON',
  depth: `nested deeper than ${maxDepth} levels`,
  members: `more than ${defaultMaxMembers} members`,
  elements: 'not an object',
  values: 'too many values',
}

/** Some nodes write `"error":null` beside a result or `"result":null` beside an error: the null counts as absent. */
const parseMembers = (text: RawJson, members: readonly IndexedMember[], id: number): ParsedResponse => {
  const envelope = findEnvelope(text, members)
  if (envelope === undefined) return invalidResponse('a member stands twice')
  const { result, error } = envelope
  if (envelope.id === undefined) return invalidResponse('no id')
  if (!equalsLiteral(text, envelope.id, String(id))) return invalidResponse('the id is not that of the request')
  if (error !== undefined && !isNull(text, error)) {
    if (result !== undefined && !isNull(text, result)) return invalidResponse('both a result and an error')
    return parseError(text, error)
  }
  if (result === undefined) return invalidResponse('neither a result nor an error')
  return {
    kind: 'result',
    result: text.subarray(result.start, result.end),
    count: text.at(result.start) === ascii.openArray ? result.childCount : undefined,
    streamStatus: parseStreamStatus(text, envelope._streamStatus),
  }
}

type EnvelopeName = (typeof envelopeNames)[number]
type EnvelopeMembers = { [name in EnvelopeName]?: IndexedMember }

const envelopeNames = ['id', 'result', 'error', '_streamStatus'] as const

/** In bytes, each character written as \u0000. */
const maxNameBytes = 6 * '_streamStatus'.length

const findEnvelope = (text: RawJson, members: readonly IndexedMember[]): EnvelopeMembers | undefined => {
  const envelope: EnvelopeMembers = {}
  for (const member of members) {
    const name = envelopeNameOf(text, member)
    if (name === undefined) continue
    if (envelope[name] !== undefined) return undefined
    envelope[name] = member
  }
  return envelope
}

/** Compares bytes: to cut the name out as a text takes as long as all else that is read of a short answer. */
const envelopeNameOf = (text: RawJson, { nameStart, nameEnd }: IndexedMember): EnvelopeName | undefined => {
  const length = nameEnd - nameStart
  const unescaped = envelopeNames.find(name => name.length === length && startsWithAt(text, nameStart, name))
  if (unescaped !== undefined || length > maxNameBytes || !toBuffer(text.subarray(nameStart, nameEnd)).includes(ascii.backslash))
    return unescaped
  const unescapedName = unescapeName(toLatin1(text, nameStart, nameEnd))
  return envelopeNames.find(name => name === unescapedName)
}

const startsWithAt = (text: RawJson, start: number, word: string): boolean => {
  if (text instanceof ChunkedBytes) return startsWithAt(toBuffer(text.subarray(start, start + word.length)), 0, word)
  for (let i = 0; i < word.length; i++) if (text[start + i] !== word.charCodeAt(i)) return false
  return true
}

const equalsLiteral = (text: RawJson, { start, end }: IndexedMember, word: string): boolean =>
  end - start === word.length && startsWithAt(text, start, word)

const isNull = (text: RawJson, { start }: IndexedMember): boolean => text.at(start) === ascii.n

const parseError = (text: RawJson, { start, end }: IndexedMember): ParsedResponse => {
  if (end - start > maxErrorBytes || !isSafeToParse(toBuffer(text.subarray(start, end)))) return invalidResponse('the error is too large')
  // Object() makes scalars and null look like an object without members.
  const { code, message, data }: { [name: string]: Json } = Object(JSON.parse(toUtf8(text, start, end)))
  if (typeof code !== 'number' || !Number.isSafeInteger(code)) return invalidResponse('the error has no integer code')
  if (typeof message !== 'string') return invalidResponse('the error has no message')
  return { kind: 'error', error: data === undefined ? { code, message } : { code, message, data } }
}

const maxErrorBytes = 1_048_576

const isSafeToParse = (text: Uint8Array): boolean =>
  new Scanner({ maxDepth, maxElements: maxParsedValues, maxValues: maxParsedValues }).push(text)

const parseStreamStatus = (text: RawJson, member: IndexedMember | undefined): string | undefined =>
  member === undefined || isNull(text, member)
    ? undefined
    : toLatin1(text, member.start, Math.min(member.end, member.start + 32)).replaceAll('"', '')
