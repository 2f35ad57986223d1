import type { ServerResponse } from 'node:http'
import { Readable, pipeline } from 'node:stream'
import { createGzip } from 'node:zlib'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import { isFailure } from '../plugin/reply.ts'

/** Shorter responses are not worth compressing: 6 MB of logs become 0.4 MB, in 190 ms on another thread. */
const minCompressedBytes = 131_072

/** Results only: errors are short, and a proxy may inspect them. */
export const shouldCompress = (res: ServerResponse, { body, replies }: RpcResponse): boolean =>
  body !== undefined &&
  body.byteLength >= minCompressedBytes &&
  !replies.every(isFailure) &&
  acceptsGzip(res.req.headers['accept-encoding'])

const acceptsGzip = (header: string | string[] | undefined): boolean => /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(header ?? ''))

/** Sends the chunks compressed, no faster than the caller reads. */
export const sendCompressed = (res: ServerResponse, { chunks }: ResponseBody): void => {
  const bytes = chunks.map(chunk => (typeof chunk === 'string' ? Buffer.from(chunk, 'latin1') : chunk))
  // Only a caller that disconnects makes it fail, and then there is nobody to send an error to.
  pipeline(Readable.from(takeEach(bytes)), createGzip({ level: 1 }), res, () => undefined)
}

/** Holds no reference to a chunk that it has yielded: V8 holds each Gzip, and all that leads to it, until a full collection. */
function* takeEach(bytes: Uint8Array[]): Generator<Uint8Array> {
  for (let chunk = bytes.shift(); chunk !== undefined; chunk = bytes.shift()) yield chunk
}
