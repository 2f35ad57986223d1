import { detach, toLatin1 } from '../json/chunked-bytes.ts'
import { ascii } from '../json/grammar.ts'
import { Scanner, maxParsedValues } from '../json/scanner.ts'
import type { ScanError } from '../json/scanner.ts'
import { defaultMaxMembers } from '../json/top-level-index.ts'
import type { Json } from '../plugin/call.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import type { JsonObject } from '../util/json.ts'
import { deepFreeze } from '../util/memoize.ts'
import { invalidRequest, parseRequest, readEnvelope } from './request-members.ts'
import type { IncomingRequest } from './request-members.ts'

/** How deep arrays and objects of a caller's message may nest. */
export const maxMessageDepth = 64

interface ParseLimits {
  /** How deep arrays and objects may nest, a batch's own array included. */
  readonly depth: number
  /** Most calls in a batch. */
  readonly batch: number
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
    const cached = requestCache.getMessage(raw)
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

  /** A request, or a batch of which all requests are cached. `raw` is a whole message, one character per byte. */
  getMessage(raw: string): KnownRequest | readonly KnownRequest[] | undefined {
    return raw.charCodeAt(0) === ascii.openArray ? this.#getBatch(raw) : this.get(raw)
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
  #getBatch(raw: string): readonly KnownRequest[] | undefined {
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
