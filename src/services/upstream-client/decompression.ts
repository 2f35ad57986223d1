import type { Transform } from 'node:stream'
import { createBrotliDecompress, createUnzip } from 'node:zlib'
import type { InFlightRequest, ResponseHandler } from './http-client.ts'

/** What decompresses a body of one Content-Encoding. */
export interface ContentDecoder {
  readonly kind: 'zlib' | 'brotli'
  createStream(): Transform
}

/** Undefined where the encoding is not supported. One encoding only: each further one multiplies what a few bytes can become. */
export const decoderFor = (encoding: string): ContentDecoder | undefined =>
  /^(x-)?gzip$|^deflate$/.test(encoding)
    ? { kind: 'zlib', createStream: () => createUnzip({ chunkSize: decompressedChunkBytes }) }
    : encoding === 'br'
      ? { kind: 'brotli', createStream: () => createBrotliDecompress({ chunkSize: decompressedChunkBytes }) }
      : undefined

const decompressedChunkBytes = 65_536

/** Decompresses a response as it comes, off the event loop and no faster than it is consumed. */
export class Decompressor {
  readonly #stream: Transform
  readonly #request: InFlightRequest

  constructor(stream: Transform, request: InFlightRequest, handler: Omit<ResponseHandler, 'onHeaders'>) {
    this.#stream = stream
    this.#request = request
    stream.on('data', (bytes: Buffer) => handler.onData(bytes))
    stream.on('end', () => handler.onEnd())
    stream.on('error', error => handler.onError(error))
    stream.on('drain', () => request.resume())
  }

  write(bytes: Buffer): void {
    if (!this.#stream.write(bytes)) this.#request.pause()
  }

  end(): void {
    this.#stream.end()
  }

  destroy(): void {
    this.#stream.destroy()
  }
}
