import { releaseBody } from '../json-rpc/serialize-response.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import type { RpcServices } from './rpc-services.ts'
import { IncompleteFrames } from './ws-frames.ts'

/** Up to here what has arrived of a message is not reserved: most messages are short, and arrive whole. */
const minReservedBytes = 4_096

/**
 * Reserves what `ws` holds of a message that is not complete: it collects the frames of a message, and reports the message only when it is
 * complete.
 */
export class ArrivingMessage {
  readonly #memory: CallerMemory
  readonly #frames = new IncompleteFrames()
  #reservedBytes = 0

  constructor(memory: CallerMemory) {
    this.#memory = memory
  }

  /** A chunk has arrived, which ws has not read yet. False when it does not fit the memory budget. */
  push(chunk: Uint8Array): boolean {
    const unreadBytes = this.#frames.heldBytes + chunk.length
    this.#frames.read(chunk)
    const neededBytes = Math.max(unreadBytes, this.#frames.heldBytes)
    const missingBytes = neededBytes - this.#reservedBytes
    if (neededBytes <= minReservedBytes || missingBytes <= 0) return true
    if (!this.#memory.reserve(missingBytes)) return false
    this.#reservedBytes += missingBytes
    return true
  }

  /** ws has reported a message, a ping or a pong of the latest chunk: what is complete is not held as a part any more. */
  release(): void {
    const { heldBytes } = this.#frames
    if (this.#reservedBytes > heldBytes) this.#releaseDownTo(heldBytes <= minReservedBytes ? 0 : heldBytes)
  }

  /** The connection is closed. */
  releaseAll(): void {
    this.#releaseDownTo(0)
  }

  #releaseDownTo(bytes: number): void {
    this.#memory.release(this.#reservedBytes - bytes)
    this.#reservedBytes = bytes
  }
}

export type WsResponseMemoryServices = Pick<RpcServices, 'activeRequests' | 'hintGc'>

/** The memory of the long responses of one WebSocket: reserved until a response is sent or discarded, and freed when the system reads it no more. */
export class WsResponseMemory {
  readonly #memory: CallerMemory
  readonly #services: WsResponseMemoryServices
  readonly #reserved = new Set<ResponseBody>()
  /** The system may still read what was written of them. */
  readonly #discarded: ResponseBody[] = []

  /** `memory` is that of the WebSocket. */
  constructor(memory: CallerMemory, services: WsResponseMemoryServices) {
    this.#memory = memory
    this.#services = services
  }

  /** False when the memory budget has no room for the response. */
  reserve(body: ResponseBody): boolean {
    if (!this.#memory.reserve(body.byteLength)) return false
    this.#services.activeRequests.begin()
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
    if (!this.#reserved.delete(body)) return false
    this.#memory.release(body.byteLength)
    this.#services.activeRequests.end()
    return true
  }

  #free(body: ResponseBody): void {
    this.#services.hintGc(body.byteLength - releaseBody(body))
  }
}
