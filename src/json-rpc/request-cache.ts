import type { Json } from '../plugin/call.ts'
import { deepFreeze } from '../util/frozen.ts'
import { detach } from '../json/chunked-bytes.ts'
import { ascii } from '../json/grammar.ts'

/** A request; of one that is kept, nobody reads the id. */
export interface ParsedRequest {
  readonly [name: string]: Json
}

/** Longest request that is kept, in bytes: room for an eth_getLogs, none for what takes much memory once it is parsed. */
const maxCachedRequestBytes = 512
/** Requests of one generation; there are two. */
const maxGenerationEntries = 500

/**
 * Clients ask the same few things over and over, each time with another id. A request that differs from earlier ones in
 * nothing but the digits of its id is neither judged nor parsed again: a number in place of another changes nothing in what
 * the rest of a text means. That takes 0.4 us where reading takes 1.4, and what plugins work out about parameters that are
 * shared they need not work out again.
 */
export class ParsedRequestCache {
  /** By text without the digits. Undefined after the first time, as most requests are never seen again. */
  #newer = new Map<string, ParsedRequest | undefined>()
  #older = new Map<string, ParsedRequest | undefined>()

  /** `raw` is a whole message, one character per byte. */
  get(raw: string): { readonly message: ParsedRequest; readonly id: string; readonly refusal: undefined } | undefined {
    if (raw.length > maxCachedRequestBytes) return undefined
    const start = idStart(raw)
    const end = start < 0 ? start : idEnd(raw, start)
    if (end === start) return undefined
    const request = this.#find(raw.slice(0, start) + raw.slice(end))
    const id = raw.slice(start, end)
    return request && { message: { ...request, id: Number(id) }, id, refusal: undefined }
  }

  /** Takes note of a request that was read and found sound; its id stands from `start` to `end`. */
  add(raw: string, start: number, end: number, message: ParsedRequest): void {
    if (raw.length > maxCachedRequestBytes || start !== idStart(raw)) return
    const text = raw.slice(0, start) + raw.slice(end)
    const isFirstSeen = !this.#newer.has(text) && !this.#older.has(text)
    this.#set(text, isFirstSeen ? undefined : deepFreeze(message))
  }

  #find(text: string): ParsedRequest | undefined {
    const newer = this.#newer.get(text)
    if (newer !== undefined) return newer
    const older = this.#older.get(text)
    if (older !== undefined) this.#set(text, older)
    return older
  }

  #set(text: string, request: ParsedRequest | undefined): void {
    if (this.#newer.size === maxGenerationEntries) {
      this.#older = this.#newer
      this.#newer = new Map()
    }
    this.#newer.set(detach(text), request)
  }
}

/** Where the id's digits begin, if the first `"id":` of the text is the id's: one place for all texts without the digits. */
const idStart = (raw: string): number => {
  const keyAt = raw.indexOf('"id":')
  if (keyAt < 0) return -1
  const valueAt = keyAt + 5
  return raw.charCodeAt(valueAt) === ascii.space ? valueAt + 1 : valueAt
}

/** Behind the digits. Where they are no number of JSON, or none at all, behind none of them. */
const idEnd = (raw: string, start: number): number => {
  let end = start
  for (let code = raw.charCodeAt(end); code >= ascii.zero && code <= ascii.nine; code = raw.charCodeAt(end)) end++
  return end > start + 1 && raw.charCodeAt(start) === ascii.zero ? start : end
}
