import { ChunkBuffer, memoryOf } from '../../src/json/chunked-bytes.ts'
import type { RawJson } from '../../src/json/chunked-bytes.ts'
import type { ResultMemory } from '../../src/json/result-memory.ts'

interface LongResult {
  readonly result: RawJson
  readonly memory: ResultMemory
}

const readBytes = 65_536

/** The result as it comes from a node, in memory that its holders release. */
export const toLongResult = (bytes: Buffer): LongResult => {
  const buffer = new ChunkBuffer(bytes.length)
  for (let start = 0; start < bytes.length; start += readBytes) buffer.push(bytes.subarray(start, start + readBytes), true)
  const memory = memoryOf(buffer.rawJson)
  if (memory === undefined) throw new Error('a result of this length has no memory that is released')
  return { result: buffer.rawJson, memory }
}

export const createLongResult = (byteLength: number, fill = '0'): LongResult => toLongResult(Buffer.alloc(byteLength, fill))
