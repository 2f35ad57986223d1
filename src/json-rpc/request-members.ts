import { detach, unescapeName } from '../json/chunked-bytes.ts'
import type { IndexedItem, IndexedMember } from '../json/top-level-index.ts'
import type { Json } from '../plugin/call.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { isJsonArray, isJsonObject } from '../util/json.ts'
import type { JsonObject, Path } from '../util/json.ts'
import { formatPath } from '../util/json-path.ts'

/** One request as it came. */
export interface IncomingRequest {
  /** Parsed; nothing about it has been checked. */
  readonly message: Json
  /**
   * The id of the response: the bytes of the request's id (one character per byte), or `null` where they are not a number,
   * a string or null. Undefined when the request has no id.
   */
  readonly id: string | undefined
  /** The reply, when the request must not run at all. */
  readonly refusal: Failure | undefined
}

/** Takes requests that may come again. */
interface RequestCache {
  /** The digits of the request's id are between `start` and `end`. */
  add(raw: string, start: number, end: number, message: JsonObject): void
}

/** A whole message, one character per byte. */
interface MessageSource {
  readonly raw: string
  readonly hasNonAscii: boolean
  readonly requestCache: RequestCache
}

/** Parses a request of a message that has been scanned. */
export const parseRequest = (source: MessageSource, { start, end, members = [] }: IndexedItem): IncomingRequest => {
  const { raw, hasNonAscii, requestCache } = source
  const text = raw.slice(start, end)
  const message = JSON.parse(hasNonAscii ? latin1ToUtf8(text) : text) as Json
  const { id, idMember, refusal: refusedEnvelope } = readEnvelope(raw, members)
  const refusal = refusedEnvelope ?? refuseInexactNumber(message)
  if (idMember !== undefined && refusal === undefined && !hasNonAscii)
    requestCache.add(text, idMember.start - start, idMember.end - start, message as JsonObject) // an item with members is an object
  return { message, id, refusal }
}

/** Must not be duplicated: JSON.parse would keep the last of two, and another parser of the same bytes perhaps the first. */
const envelopeMembers = ['jsonrpc', 'id', 'method', 'params']

/** The id of a request, and the refusal of duplicate members. */
export const readEnvelope = (
  raw: string,
  members: readonly IndexedMember[],
): Pick<IncomingRequest, 'id' | 'refusal'> & { readonly idMember: IndexedMember | undefined } => {
  let id: string | undefined
  let idMember: IndexedMember | undefined
  let refusal: Failure | undefined
  /** A bit for each of envelopeMembers. */
  let seenBits = 0
  for (const member of members) {
    const position = envelopePositionOf(raw, member)
    if (position < 0) continue
    const isDuplicate = (seenBits & (1 << position)) !== 0
    if (isDuplicate) refusal ??= invalidRequest(`duplicate member ${envelopeMembers[position]}`)
    // V8 14.6 (Node.js 26) can take an escaped name for a backslash.
    if (hasEscape(raw, member)) refusal ??= invalidRequest(`the name ${envelopeMembers[position]} is written with an escape`)
    seenBits |= 1 << position
    if (envelopeMembers[position] !== 'id') continue
    id = isDuplicate ? 'null' : validIdOrNull(detach(raw.slice(member.start, member.end)))
    idMember = member
  }
  return { id, idMember, refusal }
}

/** The member's position in envelopeMembers; -1 for any other member. A name without escapes is not copied. */
const envelopePositionOf = (raw: string, { nameStart, nameEnd }: IndexedMember): number => {
  const position = envelopeMembers.findIndex(name => name.length === nameEnd - nameStart && raw.startsWith(name, nameStart))
  if (position >= 0 || !hasEscape(raw, { nameStart, nameEnd })) return position
  return envelopeMembers.indexOf(unescapeName(raw.slice(nameStart, nameEnd)))
}

const hasEscape = (raw: string, { nameStart, nameEnd }: Pick<IndexedMember, 'nameStart' | 'nameEnd'>): boolean =>
  raw.slice(nameStart, nameEnd).includes('\\')

/** JSON.parse would change such a number, and the node would be asked something else (contract 2.1: quantities are hex). */
const refuseInexactNumber = (message: Json): Failure | undefined => {
  const params = isJsonObject(message) ? message['params'] : undefined
  const path = params === undefined ? undefined : findInexactNumber(params)
  return path && refuse('params', { message: `${formatPath('params', path)} must be a number up to 2^53 - 1; write a larger one as hex` })
}

/** Where a number is that JavaScript does not hold exactly: an integer beyond 2^53 - 1, or what is beyond all numbers. */
const findInexactNumber = (value: Json | undefined): Path | undefined => {
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER ? [] : undefined
  if (typeof value !== 'object' || value === null) return undefined
  return isJsonArray(value) ? findInItems(value) : findInMembers(value)
}

const findInItems = (items: readonly Json[]): Path | undefined => {
  for (let i = 0; i < items.length; i++) {
    const path = findInexactNumber(items[i])
    if (path !== undefined) return [i, ...path]
  }
  return undefined
}

const findInMembers = (object: JsonObject): Path | undefined => {
  for (const name in object) {
    const path = findInexactNumber(object[name])
    if (path !== undefined) return [name, ...path]
  }
  return undefined
}

const latin1ToUtf8 = (raw: string): string => Buffer.from(raw, 'latin1').toString('utf8')

/** Only numbers, strings and null are ids (JSON-RPC 2.0); their text begins with -, a digit, a quote or n. */
const validIdOrNull = (rawId: string): string => (/^[-0-9"n]/.test(rawId) ? rawId : 'null')

export const invalidRequest = (reason: string): Failure => refuse('invalid', { message: `invalid request: ${reason}` })
