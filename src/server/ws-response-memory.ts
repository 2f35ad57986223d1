import { releaseBody } from '../json-rpc/serialize-response.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import type { RpcServices } from './rpc-services.ts'

export interface WsResponseMemoryOptions extends Pick<RpcServices, 'activeRequests' | 'hintGc'> {
  /** Of the WebSocket. */
  readonly memory: CallerMemory
}

/** The memory of the long responses of one WebSocket: reserved until a response is sent or discarded, and freed when the system reads it no more. */
export class WsResponseMemory {
  readonly #options: WsResponseMemoryOptions
  readonly #reserved = new Set<ResponseBody>()
  /** The system may still read what was written of them. */
  readonly #discarded: ResponseBody[] = []

  constructor(options: WsResponseMemoryOptions) {
    this.#options = options
  }

  /** False when the memory budget has no room for the response. */
  reserve(body: ResponseBody): boolean {
    const { memory, activeRequests } = this.#options
    if (!memory.reserve(body.byteLength)) return false
    activeRequests.begin()
    this.#reserved.add(body)
    return true
  }

  /** The last bytes of the response were written, unless there is an error: then the WebSocket closes, and what is left is discarded. */
  onWritten(body: ResponseBody, error: Error | null | undefined): void {
    if (!error && this.#release(body)) this.#free(body)
  }

  /** No more responses are written. */
  discard(): void {
    for (const body of this.#reserved) {
      this.#release(body)
      this.#discarded.push(body)
    }
  }

  /** The connection has been closed. */
  onClosed(): void {
    this.discard()
    for (const body of this.#discarded.splice(0)) this.#free(body)
  }

  /** False for a response whose bytes are not reserved, or no more. */
  #release(body: ResponseBody): boolean {
    const { memory, activeRequests } = this.#options
    if (!this.#reserved.delete(body)) return false
    memory.release(body.byteLength)
    activeRequests.end()
    return true
  }

  #free(body: ResponseBody): void {
    this.#options.hintGc(body.byteLength - releaseBody(body))
  }
}
