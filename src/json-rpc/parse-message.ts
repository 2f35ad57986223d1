import { detach, toLatin1, unescapeName } from '../json/chunked-bytes.ts'
import { parseExactly, maxParsedValues } from '../json/parse-exactly.ts'
import { Scanner } from '../json/scanner.ts'
import type { ScanError } from '../json/scanner.ts'
import { defaultMaxMembers } from '../json/top-level-index.ts'
import type { IndexedItem, IndexedMember } from '../json/top-level-index.ts'
import type { Json } from '../plugin/call.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { deepFreeze } from '../util/memoize.ts'
import { ExactNumber, isJsonObject } from '../util/json.ts'
import type { JsonObject } from '../util/json.ts'
import { ParsedRequestCache } from './parsed-request-cache.ts'

interface MessageLimits {
  /** How deep arrays and objects may nest, a batch's own array included. */
  readonly depth: number
  /** Most calls in a batch. */
  readonly batch: number
}

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

/** A batch over a limit. */
export interface RefusedBatch {
  readonly refusal: Failure
  /** The ids of its calls as in IncomingRequest, without notifications. */
  readonly ids: readonly string[]
}

/** A request, a batch of them, a batch over a limit, or the failure of the whole message. */
export type ParsedMessage = IncomingRequest | readonly IncomingRequest[] | RefusedBatch | Failure

export type ParseMessage = (bytes: Uint8Array) => ParsedMessage

/** Parses messages of callers. A message is scanned before it is parsed: no nesting and no number of values can do harm. */
export const createMessageParser = (limits: MessageLimits): ParseMessage => {
  const requestCache = new ParsedRequestCache(limits)
  return bytes => {
    const raw = toLatin1(bytes)
    const cached = requestCache.getMessage(raw)
    if (cached !== undefined) return cached
    const scanner = new Scanner({ maxDepth: limits.depth, maxElements: limits.batch, maxValues: maxParsedValues })
    scanner.push(bytes)
    const error = scanner.end()
    if (error !== undefined) return refuseMessage(bytes, raw, error, limits)
    const { isArray, items, hasNonAscii, needsExactParse } = scanner
    const source = { raw, hasNonAscii, needsExactParse, requestCache }
    if (!isArray) return parseItem(source, items[0]!)
    if (items.length === 0) return invalidRequest('the batch is empty')
    return items.map(item => requestCache.get(raw.slice(item.start, item.end)) ?? parseItem(source, item))
  }
}

/** Most members of a refused batch that get an error each; above it, one error is for all. */
const maxRefusedMembers = 10_000

/**
 * What exceeds a limit is refused with the ids of its calls, where they can be read: clients find nobody whom an error without an
 * id belongs to, and go-ethereum's waits forever. Notifications are left out.
 */
const refuseMessage = (bytes: Uint8Array, raw: string, error: ScanError, limits: MessageLimits): ParsedMessage => {
  const refusal = deepFreeze(scanFailure(error, limits)) // so that its error is serialized once
  if (error !== 'elements' && error !== 'values' && error !== 'members') return refusal
  const scanner = new Scanner({ maxDepth: limits.depth, maxElements: maxRefusedMembers, maxValues: Infinity, maxMembers: Infinity })
  scanner.push(bytes)
  const otherError = scanner.end()
  if (otherError !== undefined) return otherError === 'elements' ? refusal : scanFailure(otherError, limits)
  const ids = scanner.items.map(({ members }) => (members === undefined ? 'null' : readEnvelope(raw, members).id))
  return scanner.isArray ? { refusal, ids: ids.filter(id => id !== undefined) } : { message: null, id: ids[0], refusal }
}

const scanFailure = (error: ScanError, { depth, batch }: MessageLimits): Failure => {
  switch (error) {
    case 'syntax':
      return refuse('parse')
    case 'depth':
      return invalidRequest(`nested deeper than ${depth} levels`)
    case 'elements':
      return invalidRequest(`more than ${batch} calls in a batch`)
    case 'members':
      return invalidRequest(`more than ${defaultMaxMembers} members in a request`)
    case 'values':
      return invalidRequest(`more than ${maxParsedValues} values`)
  }
}

const invalidRequest = (reason: string): Failure => refuse('invalid', { message: `invalid request: ${reason}` })

/** Must not be duplicated: JSON.parse would keep the last of two, and another parser of the same bytes perhaps the first. */
const envelopeMembers = ['jsonrpc', 'id', 'method', 'params']

/** A whole message, one character per byte. */
interface MessageSource {
  readonly raw: string
  readonly hasNonAscii: boolean
  readonly needsExactParse: boolean
  readonly requestCache: ParsedRequestCache
}

const parseItem = (source: MessageSource, { start, end, members = [] }: IndexedItem): IncomingRequest => {
  const { raw, hasNonAscii, requestCache } = source
  const text = raw.slice(start, end)
  const message = parseText(hasNonAscii ? latin1ToUtf8(text) : text, source)
  const { id, idMember, refusal } = readEnvelope(raw, members)
  if (idMember !== undefined && refusal === undefined && !hasNonAscii)
    requestCache.add(text, idMember.start - start, idMember.end - start, message as JsonObject) // an item with members is an object
  return { message, id, refusal }
}

/** The id of a request, and the refusal of duplicate members. */
const readEnvelope = (
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
  if (position >= 0 || !raw.slice(nameStart, nameEnd).includes('\\')) return position
  return envelopeMembers.indexOf(unescapeName(raw.slice(nameStart, nameEnd)))
}

/** With the digits of all numbers, but for those of the id: plugins see a plain number, and the response has the id's own bytes. */
const parseText = (text: string, { needsExactParse }: MessageSource): Json => {
  if (!needsExactParse) return JSON.parse(text) as Json
  const message = parseExactly(detach(text))
  const id = isJsonObject(message) ? message['id'] : undefined
  return isJsonObject(message) && id instanceof ExactNumber ? { ...message, id: id.valueOf() } : message
}

const latin1ToUtf8 = (raw: string): string => Buffer.from(raw, 'latin1').toString('utf8')

/** Only numbers, strings and null are ids (JSON-RPC 2.0); their text begins with -, a digit, a quote or n. */
const validIdOrNull = (rawId: string): string => (/^[-0-9"n]/.test(rawId) ? rawId : 'null')
