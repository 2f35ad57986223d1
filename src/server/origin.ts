import { randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Origin } from '../call.ts'
import type { Secret } from '../secret.ts'

/** One HTTP request or one WebSocket, as plugins see it. */
export class Caller implements Origin {
  readonly transport: Origin['transport']
  readonly network: string
  readonly key: Secret | undefined
  readonly requestId = nextRequestId()
  readonly #request: IncomingMessage
  #end: AbortController | undefined
  #left = false

  constructor(transport: Origin['transport'], network: string, key: Secret | undefined, request: IncomingMessage) {
    this.transport = transport
    this.network = network
    this.key = key
    this.#request = request
  }

  get page(): string | undefined {
    return this.#request.headers.origin
  }

  get ip(): string {
    return this.#request.socket.remoteAddress ?? ''
  }

  get headers(): Origin['headers'] {
    return this.#request.headers
  }

  get signal(): AbortSignal {
    this.#end ??= openEnd()
    if (this.#left) this.#end.abort()
    return this.#end.signal
  }

  /** The caller has gone: ends the work that is done for it. */
  leave(): void {
    this.#left = true
    this.#end?.abort()
  }
}

/** A batch, and all calls of a socket, wait on one signal: Node would take more than 10 of them for a leak. */
const openEnd = (): AbortController => {
  const end = new AbortController()
  setMaxListeners(0, end.signal)
  return end
}

const run = randomBytes(6).toString('hex')
let requests = 0

/** Unique over processes and restarts, and cheap: one random part per process, then a count. */
export const nextRequestId = (): string => `${run}-${(requests += 1).toString(36)}`
