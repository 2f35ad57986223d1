import { detach, toLatin1, unescapeName } from '../json/chunked-bytes.ts'
import { ascii } from '../json/grammar.ts'
import { Scanner, maxParsedValues } from '../json/scanner.ts'
import type { ScanError } from '../json/scanner.ts'
import { defaultMaxMembers } from '../json/top-level-index.ts'
import type { IndexedItem, IndexedMember } from '../json/top-level-index.ts'
import type { Json } from '../plugin/call.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { isJsonArray, isJsonObject } from '../util/json.ts'
import type { JsonObject, Path } from '../util/json.ts'
import { formatPath } from '../util/json-path.ts'
import { deepFreeze } from '../util/memoize.ts'

/** How deep arrays and objects of a caller's message may nest. */
export const maxMessageDepth = 64

interface ParseLimits {
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
export const createMessageParser = (limits: ParseLimits): ParseMessage => {
  const requestCache = new ParsedRequestCache(limits)
  return bytes => {
    const raw = toLatin1(bytes)
    const cached = raw.charCodeAt(0) === ascii.openArray ? requestCache.getBatch(raw) : requestCache.get(raw)
    if (cached !== undefined) return cached
    const scanner = new Scanner({ maxDepth: limits.depth, maxElements: limits.batch, maxValues: maxParsedValues })
    scanner.push(bytes)
    const error = scanner.end()
    if (error !== undefined) return refuseMessage(bytes, raw, error, limits)
    const { isArray, items, hasNonAscii } = scanner
    const source = { raw, hasNonAscii, requestCache }
    if (!isArray) return parseRequest(source, items[0]!)
    if (items.length === 0) return invalidRequest('the batch is empty')
    return items.map(item => requestCache.get(raw.slice(item.start, item.end)) ?? parseRequest(source, item))
  }
}

/** Most members of a refused batch that get an error each; above it, one error is for all. */
const maxRefusedMembers = 10_000

/**
 * What exceeds a limit is refused with the ids of its calls, where they can be read: clients find nobody whom an error without an
 * id belongs to, and go-ethereum's waits forever. Notifications are left out.
 */
const refuseMessage = (bytes: Uint8Array, raw: string, error: ScanError, limits: ParseLimits): ParsedMessage => {
  const refusal = deepFreeze(scanFailure(error, limits)) // so that its error is serialized once
  if (error !== 'elements' && error !== 'values' && error !== 'members') return refusal
  const scanner = new Scanner({ maxDepth: limits.depth, maxElements: maxRefusedMembers, maxValues: Infinity, maxMembers: Infinity })
  scanner.push(bytes)
  const otherError = scanner.end()
  if (otherError !== undefined) return otherError === 'elements' ? refusal : scanFailure(otherError, limits)
  const ids = scanner.items.map(({ members }) => (members === undefined ? 'null' : readEnvelope(raw, members).id))
  return scanner.isArray ? { refusal, ids: ids.filter(id => id !== undefined) } : { message: null, id: ids[0], refusal }
}

const scanFailure = (error: ScanError, { depth, batch }: ParseLimits): Failure => {
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

/** A whole message, one character per byte. */
interface MessageSource {
  readonly raw: string
  readonly hasNonAscii: boolean
  readonly requestCache: ParsedRequestCache
}

/** Parses a request of a message that has been scanned. */
const parseRequest = (source: MessageSource, { start, end, members = [] }: IndexedItem): IncomingRequest => {
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

const invalidRequest = (reason: string): Failure => refuse('invalid', { message: `invalid request: ${reason}` })

/** A request like an earlier one. */
interface KnownRequest {
  readonly message: JsonObject
  /** The digits as they came. */
  readonly id: string
  readonly refusal: undefined
}

/** Longest request that is cached, and most commas in it: an eth_getLogs fits, a request that takes much memory once parsed does not. */
const maxCachedRequestBytes = 512
const maxCachedCommas = 40
/** Longest batch that is not scanned: it cannot have more values than a scanned one may have, as each takes two bytes, the comma included. */
const maxUnscannedBatchBytes = 2 * maxParsedValues
/** Two generations are cached: at most 4,096 requests, each of which takes 1 to 2.5 KiB. */
const maxGenerationEntries = 2_048

/**
 * Clients send the same few requests over and over, each time with another id. A request that differs from an earlier one in
 * nothing but the digits of its id is neither scanned nor parsed again: a number in place of another does not change the
 * rest. That takes 0.4 us where parsing takes 1.4, and saves plugins what they have computed from parameters that are shared.
 * Two generations of a Map, as lru-cache takes 20 ns more for a hit and 300 ns more for a miss, when it evicts.
 */
class ParsedRequestCache {
  /** By text without the digits of the id. Undefined after the first time, as most requests are never repeated. */
  #newer = new Map<string, CachedRequest | undefined>()
  #older = new Map<string, CachedRequest | undefined>()
  readonly #limits: ParseLimits

  constructor(limits: ParseLimits) {
    this.#limits = limits
  }

  /** `raw` is a whole request. */
  get(raw: string): KnownRequest | undefined {
    if (raw.length > maxCachedRequestBytes) return undefined
    const start = idStart(raw)
    const end = start < 0 ? start : idEnd(raw, start)
    if (end === start) return undefined
    const cached = this.#find(raw.slice(0, start) + raw.slice(end))
    const id = raw.slice(start, end)
    return cached && { message: messageOf(cached, Number(id)), id, refusal: undefined }
  }

  /** Caches a request from its second time on; its id is between `start` and `end`. */
  add(raw: string, start: number, end: number, message: JsonObject): void {
    if (raw.length > maxCachedRequestBytes || countOf(',', raw) > maxCachedCommas || start !== idStart(raw)) return
    // In a batch it may be too deep.
    if (countOf('[', raw) + countOf('{', raw) >= this.#limits.depth) return
    // V8 computes the hash of a text once. It is no help to get(), where most texts are found at once: to detach theirs takes 0.3 us of a batch's call.
    const key = detach(raw.slice(0, start) + raw.slice(end))
    const isRepeated = this.#newer.has(key) || this.#older.has(key)
    this.#set(key, isRepeated ? toCached(message) : undefined)
  }

  /**
   * A batch of which all requests are cached need not be scanned: whole requests between `[`, commas and `]` are a valid batch. To scan it takes
   * 0.35 us of each call. Undefined where `},{` is within a request: parts of requests are never cached.
   */
  getBatch(raw: string): readonly KnownRequest[] | undefined {
    if (raw.length > maxUnscannedBatchBytes || raw.charCodeAt(raw.length - 1) !== ascii.closeArray) return undefined
    const requests: KnownRequest[] = []
    for (let start = 1; start < raw.length; ) {
      const commaAt = raw.indexOf('},{', start) + 1
      const end = commaAt > 0 ? commaAt : raw.length - 1
      const request = this.get(raw.slice(start, end))
      if (request === undefined || requests.push(request) > this.#limits.batch) return undefined
      start = end + 1
    }
    return requests
  }

  #find(key: string): CachedRequest | undefined {
    const newer = this.#newer.get(key)
    if (newer !== undefined) return newer
    const older = this.#older.get(key)
    if (older !== undefined) this.#set(detach(key), older)
    return older
  }

  #set(key: string, request: CachedRequest | undefined): void {
    if (this.#newer.size === maxGenerationEntries) {
      this.#older = this.#newer
      this.#newer = new Map()
    }
    this.#newer.set(key, request)
  }
}

/** Frozen, as calls share it. */
interface CachedRequest {
  readonly message: JsonObject
  /** Where it has the members of a usual request, and no others: to write these out takes 10 ns, to spread a frozen object 170. */
  readonly usual: Readonly<Record<'jsonrpc' | 'method' | 'params', Json>> | undefined
}

const toCached = (message: JsonObject): CachedRequest => {
  const { jsonrpc, method, params } = message
  const hasUsualMembers = jsonrpc !== undefined && method !== undefined && params !== undefined && Object.keys(message).length === 4
  return deepFreeze({ message, usual: hasUsualMembers ? { jsonrpc, method, params } : undefined })
}

const messageOf = ({ message, usual }: CachedRequest, id: number): JsonObject =>
  usual === undefined ? { ...message, id } : { jsonrpc: usual.jsonrpc, id, method: usual.method, params: usual.params }

const countOf = (character: string, text: string): number => {
  let count = 0
  for (let at = text.indexOf(character); at >= 0; at = text.indexOf(character, at + 1)) count += 1
  return count
}

/** Where the id's digits begin, if the first `"id":` of the text is the id's: the same place for all texts without the digits. */
const idStart = (raw: string): number => {
  const keyAt = raw.indexOf('"id":')
  if (keyAt < 0) return -1
  const valueAt = keyAt + '"id":'.length
  return raw.charCodeAt(valueAt) === ascii.space ? valueAt + 1 : valueAt
}

/** The end of the digits; `start` where they are not a JSON number, or there are none. */
const idEnd = (raw: string, start: number): number => {
  let end = start
  for (let code = raw.charCodeAt(end); code >= ascii.zero && code <= ascii.nine; code = raw.charCodeAt(end)) end++
  return end > start + 1 && raw.charCodeAt(start) === ascii.zero ? start : end
}
