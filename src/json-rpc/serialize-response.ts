import { ChunkedBytes, chunksOf, memoryOf, toLatin1 } from '../json/chunked-bytes.ts'
import type { ResultMemory } from '../json/result-memory.ts'
import { isFailure } from '../plugin/reply.ts'
import type { Reply, RpcError } from '../plugin/reply.ts'
import { memoizeFrozen } from '../util/memoize.ts'

/** A message to send: chunks in order, so that long results are not copied. A string has one character per byte (latin1). */
export interface ResponseBody {
  readonly chunks: readonly (string | Uint8Array)[]
  /** Bytes of all chunks together. */
  readonly byteLength: number
  /** Of the long results, which the body holds: for releaseBody(). */
  readonly memory?: readonly ResultMemory[] | undefined
}

/** The response to one call. `id` is the caller's id as it came; a result is sent as the node wrote it. */
export const serializeResponse = (id: string, reply: Reply): ResponseBody => {
  const isError = isFailure(reply)
  const value = isError ? serializeError(reply.error) : reply.result
  const prefix = `{"jsonrpc":"2.0","id":${id},"${isError ? 'error' : 'result'}":`
  if (value instanceof ChunkedBytes) {
    const memory = memoryOf(value)
    const body = { chunks: [prefix, ...chunksOf(value), '}'], byteLength: prefix.length + value.byteLength + 1 }
    return memory === undefined ? body : { ...body, memory: [memory] }
  }
  return { chunks: [prefix, value, '}'], byteLength: prefix.length + value.length + 1 }
}

/** No byte of the body is read any more: it has been sent, or will not be. Called once. Returns how many bytes are freed. */
export const releaseBody = (body: Pick<ResponseBody, 'memory'> | undefined): number =>
  body?.memory?.reduce((sum, each) => sum + each.release(), 0) ?? 0

/** As bytes where it is not ASCII. A refusal that is returned again and again is serialized once. */
const serializeError = memoizeFrozen(({ code, message, data }: RpcError) =>
  toAsciiOrBytes(JSON.stringify(data === undefined ? { code, message } : { code, message, data })),
)

const toAsciiOrBytes = (text: string): string | Uint8Array => (/[^\x00-\x7f]/.test(text) ? Buffer.from(text) : text)

/** The response to a batch. Short chunks are copied together, as to send a chunk costs more than to copy it. */
export const serializeBatch = (bodies: readonly ResponseBody[]): ResponseBody => {
  const chunks: (string | Uint8Array)[] = []
  const memory: ResultMemory[] = []
  let byteLength = 1
  let text = '['
  for (const body of bodies) {
    for (const chunk of body.chunks) {
      if (typeof chunk === 'string') text += chunk
      else if (chunk.length <= maxCopiedBytes) text += toLatin1(chunk)
      else {
        chunks.push(text, chunk)
        text = ''
      }
    }
    if (body.memory !== undefined) memory.push(...body.memory)
    text += ','
    byteLength += body.byteLength + 1
  }
  chunks.push(`${text.slice(0, -1)}]`)
  return { chunks, byteLength, memory }
}

const maxCopiedBytes = 16_384

/** A short message as one string, one character per byte (latin1). */
export const bodyToLatin1 = ({ chunks }: ResponseBody): string => {
  let text = ''
  for (const chunk of chunks) text += typeof chunk === 'string' ? chunk : toLatin1(chunk)
  return text
}

/** The whole message in one buffer, copied. */
export const bodyToBuffer = ({ chunks, byteLength }: ResponseBody): Buffer => {
  const bytes = Buffer.allocUnsafe(byteLength)
  let at = 0
  for (const chunk of chunks) {
    if (typeof chunk === 'string') bytes.write(chunk, at, 'latin1')
    else bytes.set(chunk, at)
    at += chunk.length
  }
  return bytes
}
