import type { Json } from '../plugin/call.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { ParsedRequestCache } from './request-cache.ts'
import type { ParsedRequest } from './request-cache.ts'
import { detach, toLatin1, unescapeName } from '../json/chunked-bytes.ts'
import { Scanner } from '../json/scanner.ts'
import { defaultMaxMembers, maxParsedValues } from '../json/top-level-index.ts'
import type { IndexedItem, IndexedMember, ScanError } from '../json/top-level-index.ts'

export interface MessageLimits {
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
   * What to write as the id of the answer: the bytes of the request's id (one character per byte), or `null` where they
   * are not a number, a string or null. Undefined when the request has no id.
   */
  readonly id: string | undefined
  /** Its answer, when it must not run at all. */
  readonly refusal: Failure | undefined
}

/** A request, a batch of them, or the one answer to a message that holds none. */
export type ParsedMessage = IncomingRequest | readonly IncomingRequest[] | Failure

export type ParseMessage = (bytes: Uint8Array) => ParsedMessage

/** Reads what callers send. It is scanned before anything is parsed: no nesting and no number of values can hurt. */
export const createMessageParser = (limits: MessageLimits): ParseMessage => {
  const requestCache = new ParsedRequestCache()
  return bytes => {
    const raw = toLatin1(bytes)
    const cached = requestCache.get(raw)
    if (cached !== undefined) return cached
    const scanner = new Scanner({ maxDepth: limits.depth, maxElements: limits.batch, maxValues: maxParsedValues })
    scanner.push(bytes)
    const error = scanner.end()
    if (error !== undefined) return scanFailure(error, limits)
    const { isArray, items, hasNonAscii } = scanner
    if (!isArray) return parseItem({ raw, hasNonAscii, requestCache }, items[0]!)
    if (items.length === 0) return invalidRequest('the batch is empty')
    return items.map(item => requestCache.get(raw.slice(item.start, item.end)) ?? parseItem({ raw, hasNonAscii, requestCache }, item))
  }
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

/** Must not stand twice: parsing would keep the last of two, and another reader of the same bytes perhaps the first. */
const envelopeMembers = ['jsonrpc', 'id', 'method', 'params']

/** A whole message, one character per byte. */
interface MessageSource {
  readonly raw: string
  readonly hasNonAscii: boolean
  readonly requestCache: ParsedRequestCache
}

const parseItem = ({ raw, hasNonAscii, requestCache }: MessageSource, { start, end, members = [] }: IndexedItem): IncomingRequest => {
  const text = raw.slice(start, end)
  const message = JSON.parse(hasNonAscii ? latin1ToUtf8(text) : text) as Json
  let id: string | undefined
  let idMember: IndexedMember | undefined
  let refusal: Failure | undefined
  /** A bit for each name of the envelope. */
  let seenBits = 0
  for (const member of members) {
    const position = envelopePositionOf(raw, member)
    if (position < 0) continue
    const isDuplicate = (seenBits & (1 << position)) !== 0
    if (isDuplicate) refusal ??= invalidRequest(`${envelopeMembers[position]} stands twice`)
    seenBits |= 1 << position
    if (envelopeMembers[position] !== 'id') continue
    id = isDuplicate ? 'null' : validIdOrNull(detach(raw.slice(member.start, member.end)))
    idMember = member
  }
  if (idMember !== undefined && refusal === undefined && !hasNonAscii)
    requestCache.add(text, idMember.start - start, idMember.end - start, message as ParsedRequest)
  return { message, id, refusal }
}

/** Which name of the envelope the member has; -1 for any other. Nothing is cut out of the message for a plain name. */
const envelopePositionOf = (raw: string, { nameStart, nameEnd }: IndexedMember): number => {
  const position = envelopeMembers.findIndex(name => name.length === nameEnd - nameStart && raw.startsWith(name, nameStart))
  if (position >= 0 || !raw.slice(nameStart, nameEnd).includes('\\')) return position
  return envelopeMembers.indexOf(unescapeName(raw.slice(nameStart, nameEnd)))
}

const latin1ToUtf8 = (raw: string): string => Buffer.from(raw, 'latin1').toString('utf8')

/** Only numbers, strings and null are ids (JSON-RPC 2.0); their text begins with -, a digit, a quote or n. */
const validIdOrNull = (rawId: string): string => (/^[-0-9"n]/.test(rawId) ? rawId : 'null')
