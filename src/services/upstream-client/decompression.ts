import type { Transform } from 'node:stream'
import type { ResponseHandler, InFlightRequest } from './http-client.ts'

/** Inflates an answer as it comes, off the event loop and no faster than it is taken. */
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
