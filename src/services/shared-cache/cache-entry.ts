import { chunksOf, toBuffer } from '../../json/chunked-bytes.ts'
import type { RawJson } from '../../json/chunked-bytes.ts'
import { ResponseParser } from '../../json-rpc/parse-response.ts'

/** A result that stands for as long as a block does. */
export interface SharedCacheEntry {
  /** The JSON text of the result, as the node wrote it. */
  readonly result: RawJson
  /** How many elements it has, when it is an array. */
  readonly count?: number | undefined
  /** The final block that the node knew when it was asked: on a chain that has it, the result is right. */
  readonly finalizedBlock: { readonly number: number; readonly hash: string }
}

/** Changes when entries change so that an older Tollgate would misread them; a part of every key too. */
export const entryVersion = 1

/** More than whatever stands before a result. */
export const maxEntryHeaderBytes = 512

/** One line about the entry, then the result as a node would send it, so that it is read with the same care. */
export const serializeEntry = (name: string, { result, finalizedBlock }: SharedCacheEntry): Buffer =>
  Buffer.concat([Buffer.from(`${entryHeaderOf(name, finalizedBlock)}\n${responsePrefix}`), ...chunksOf(result), Buffer.from('}')])

/** Undefined for what is no entry of this name: cut off, written by another version, or by somebody else. */
export const parseEntry = (name: string, bytes: Buffer): SharedCacheEntry | undefined => {
  const headerEnd = bytes.subarray(0, maxEntryHeaderBytes).indexOf(0x0a)
  const [, number, hash = ''] = /^\S+ \S+ (\d{1,15}) (0x[0-9a-f]{1,64})$/.exec(bytes.toString('latin1', 0, Math.max(0, headerEnd))) ?? []
  const finalizedBlock = { number: Number(number), hash }
  if (number === undefined || bytes.toString('latin1', 0, headerEnd) !== entryHeaderOf(name, finalizedBlock)) return undefined
  const parser = new ResponseParser()
  if (!parser.push(bytes.subarray(headerEnd + 1))) return undefined
  const response = parser.finish(responseId)
  if (response.kind !== 'result' || response.streamStatus !== undefined) return undefined
  // A copy, as it is kept for long: what came from the connection may be a part of something larger.
  return { result: Buffer.from(toBuffer(response.result)), count: response.count, finalizedBlock }
}

const entryHeaderOf = (name: string, { number, hash }: SharedCacheEntry['finalizedBlock']): string =>
  `${entryVersion} ${name} ${number} ${hash}`

const responseId = 1
const responsePrefix = `{"jsonrpc":"2.0","id":${responseId},"result":`
