import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createGzip } from 'node:zlib'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { releaseBody } from '../json-rpc/serialize-response.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import { isFailure } from '../plugin/reply.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import { createSemaphore } from '../util/async.ts'

/** Shorter responses are not worth compressing: 6 MB of logs become 0.4 MB, in 190 ms on another thread. */
const minCompressedBytes = 131_072

/**
 * Responses that are compressed at once: as many as Node.js has threads for it. With more, what else the threads do, such as looking up
 * host names, would wait behind them.
 */
export const maxConcurrentCompressions = 4

/** A thread compresses so many bytes at a time, in up to 8 ms, and not before the caller has read what they follow. With a quarter, 6 MB take 3 ms more CPU. */
const pieceBytes = 262_144

/** The memory of zlib for one response, and of what it has compressed at once. */
const compressionBytes = 262_144 + pieceBytes

/**
 * Compresses long responses for callers who ask for gzip. While as many as the limit are compressed, others are sent as they are. A response
 * that waits for its caller to read does not count, so that slow readers keep nobody else's from being compressed.
 */
export class ResponseCompressor {
  readonly #onThread = createSemaphore(maxConcurrentCompressions)
  #activeCount = 0

  /** Results only: errors are short, and a proxy may inspect them. False as well when `memory` has no room for the compression. */
  shouldCompress(res: ServerResponse, { body, replies }: RpcResponse, memory: CallerMemory | undefined): boolean {
    return (
      body !== undefined &&
      body.byteLength >= minCompressedBytes &&
      this.#activeCount < maxConcurrentCompressions &&
      !replies.every(isFailure) &&
      acceptsGzip(res.req.headers['accept-encoding']) &&
      memory?.reserve(compressionBytes) !== false
    )
  }

  /** Sends the chunks compressed, no faster than the caller reads. */
  async send(res: ServerResponse, { chunks, memory }: ResponseBody): Promise<void> {
    const pieces = splitIntoPieces(chunks)
    const stream = new GzipStream()
    this.#activeCount += 1
    for (let piece = pieces.shift(); piece !== undefined && !res.destroyed; piece = pieces.shift()) {
      const next = piece
      const compressed = await this.#onThread(() => stream.compress(next))
      if (compressed.length > 0 && !res.write(compressed)) await this.#whenRead(res)
    }
    releaseBody({ memory }) // no thread reads a piece
    res.end(await stream.end())
    this.#activeCount -= 1
  }

  /** Resolves when the caller has read what was written, or has left. */
  async #whenRead(res: ServerResponse): Promise<void> {
    this.#activeCount -= 1
    await new Promise<void>(resolve => {
      const onRead = (): void => {
        res.off('drain', onRead).off('close', onRead)
        resolve()
      }
      res.on('drain', onRead).on('close', onRead)
    })
    this.#activeCount += 1
  }
}

/** V8 holds each Gzip until a full collection: nothing leads from it to the response, or to bytes that have been sent. */
class GzipStream {
  readonly #gzip = createGzip({ level: 1 })
  readonly #compressed: Buffer[] = []

  constructor() {
    this.#gzip.on('data', (chunk: Buffer) => this.#compressed.push(chunk))
  }

  /** Resolves with what can be sent then, which may be nothing yet. */
  async compress(piece: Uint8Array): Promise<Buffer> {
    await new Promise<void>(resolve => this.#gzip.write(piece, () => resolve()))
    return this.#take()
  }

  async end(): Promise<Buffer> {
    this.#gzip.end()
    await once(this.#gzip, 'end')
    return this.#take()
  }

  #take(): Buffer {
    return Buffer.concat(this.#compressed.splice(0))
  }
}

const splitIntoPieces = (chunks: ResponseBody['chunks']): Uint8Array[] => {
  const pieces: Uint8Array[] = []
  for (const chunk of chunks) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, 'latin1') : chunk
    for (let start = 0; start < bytes.length; start += pieceBytes) pieces.push(bytes.subarray(start, start + pieceBytes))
  }
  return pieces
}

const acceptsGzip = (header: string | string[] | undefined): boolean => /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(header ?? ''))
