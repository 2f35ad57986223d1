import type { ServerResponse } from 'node:http'
import { Readable, pipeline } from 'node:stream'
import { createGzip } from 'node:zlib'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import { isFailure } from '../plugin/reply.ts'

/** Shorter responses are not worth compressing: 6 MB of logs become 0.4 MB, in 190 ms on another thread. */
const minCompressedBytes = 131_072

/**
 * Responses that are compressed at once: as many as Node.js has threads for it. With more, what else the threads do, such as looking up
 * host names, would wait behind their chunks.
 */
export const maxConcurrentCompressions = 4

/** Compresses long responses for callers who ask for gzip. While as many as the limit are compressed, others are sent as they are. */
export class ResponseCompressor {
  #activeCount = 0

  /** Results only: errors are short, and a proxy may inspect them. */
  shouldCompress(res: ServerResponse, { body, replies }: RpcResponse): boolean {
    return (
      body !== undefined &&
      body.byteLength >= minCompressedBytes &&
      this.#activeCount < maxConcurrentCompressions &&
      !replies.every(isFailure) &&
      acceptsGzip(res.req.headers['accept-encoding'])
    )
  }

  /** Sends the chunks compressed, no faster than the caller reads. */
  send(res: ServerResponse, { chunks }: ResponseBody): void {
    const bytes = chunks.map(chunk => (typeof chunk === 'string' ? Buffer.from(chunk, 'latin1') : chunk))
    this.#activeCount += 1
    // pipeline() adds seven listeners. Where the response waits behind others of its connection (pipelining), it has more than ten, and Node would warn.
    res.setMaxListeners(0)
    // Only a caller that disconnects makes it fail, and then there is nobody to send an error to.
    pipeline(Readable.from(takeEach(bytes)), createGzip({ level: 1 }), res, () => {
      this.#activeCount -= 1
    })
  }
}

const acceptsGzip = (header: string | string[] | undefined): boolean => /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(header ?? ''))

/** Holds no reference to a chunk that it has yielded: V8 holds each Gzip, and all that leads to it, until a full collection. */
function* takeEach(bytes: Uint8Array[]): Generator<Uint8Array> {
  for (let chunk = bytes.shift(); chunk !== undefined; chunk = bytes.shift()) yield chunk
}
