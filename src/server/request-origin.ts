import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Origin, OriginState } from '../plugin/call.ts'
import { Cancellation } from '../plugin/cancellation.ts'
import type { Secret } from '../plugin/secret.ts'

/** One HTTP request or one WebSocket, as plugins see it. */
export class RequestOrigin implements Origin {
  readonly transport: Origin['transport']
  readonly network: string
  readonly key: Secret | undefined
  readonly requestId = nextRequestId()
  readonly signal = new Cancellation()
  readonly state: OriginState = {}
  readonly #request: IncomingMessage

  constructor(transport: Origin['transport'], network: string, key: Secret | undefined, request: IncomingMessage) {
    this.transport = transport
    this.network = network
    this.key = key
    this.#request = request
  }

  get originHeader(): string | undefined {
    return this.#request.headers.origin
  }

  get ip(): string {
    return this.#request.socket.remoteAddress ?? ''
  }

  get headers(): Origin['headers'] {
    return this.#request.headers
  }

  /** The caller has gone: ends the work that is done for it. */
  abort(): void {
    this.signal.abort()
  }
}

const requestIdPrefix = randomBytes(6).toString('hex')
let requestCount = 0

/** Unique over processes and restarts, and cheap: one random part per process, then a count. */
export const nextRequestId = (): string => `${requestIdPrefix}-${((requestCount += 1)).toString(36)}`
