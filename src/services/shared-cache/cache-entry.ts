import { chunksOf, toBuffer } from '../../json/chunked-bytes.ts'
import type { RawJson } from '../../json/chunked-bytes.ts'
import { ResponseParser } from '../../json-rpc/parse-response.ts'

/** A result that is valid as long as its final block is on the chain. */
export interface SharedCacheEntry {
  /** The JSON text of the result, as the node wrote it. */
  readonly result: RawJson
  /** How many elements it has, when it is an array. */
  readonly count?: number | undefined
  /** The finalized block of the node before it was requested: on a chain that has this block, the result is right. */
  readonly finalizedBlock: { readonly number: number; readonly hash: string }
}

/** The version of the format, part of every key. It changes when an older Tollgate would misread an entry. */
export const entryVersion = 1

/** More than the bytes before the result in any entry. */
export const maxEntryHeaderBytes = 512

/** A header line, then the result as a JSON-RPC response, so that it is parsed with the same checks. */
export const serializeEntry = (name: string, { result, finalizedBlock }: SharedCacheEntry): Buffer =>
  Buffer.concat([Buffer.from(`${entryHeaderOf(name, finalizedBlock)}\n${responsePrefix}`), ...chunksOf(result), Buffer.from('}')])

/** Undefined for bytes that are no entry of this name: truncated, or written by another version or program. */
export const parseEntry = (name: string, bytes: Buffer): SharedCacheEntry | undefined => {
  const headerEnd = bytes.subarray(0, maxEntryHeaderBytes).indexOf(0x0a)
  const [, number, hash = ''] = /^\S+ \S+ (\d{1,15}) (0x[0-9a-f]{1,64})$/.exec(bytes.toString('latin1', 0, Math.max(0, headerEnd))) ?? []
  const finalizedBlock = { number: Number(number), hash }
  if (number === undefined || bytes.toString('latin1', 0, headerEnd) !== entryHeaderOf(name, finalizedBlock)) return undefined
  const parser = new ResponseParser()
  if (!parser.push(bytes.subarray(headerEnd + 1))) return undefined
  const response = parser.finish(responseId)
  if (response.kind !== 'result' || response.streamStatus !== undefined) return undefined
  // A copy: the bytes may be part of a larger buffer of the connection, which a cached result would keep in memory.
  return { result: Buffer.from(toBuffer(response.result)), count: response.count, finalizedBlock }
}

const entryHeaderOf = (name: string, { number, hash }: SharedCacheEntry['finalizedBlock']): string =>
  `${entryVersion} ${name} ${number} ${hash}`

const responseId = 1
const responsePrefix = `{"jsonrpc":"2.0","id":${responseId},"result":`
