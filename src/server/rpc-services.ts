import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { GatewayLimits } from '../config/types.ts'
import type { Network } from '../core/network.ts'
import type { Origin, OriginState } from '../plugin/call.ts'
import { Cancellation } from '../plugin/cancellation.ts'
import type { RefusalKind, Reply } from '../plugin/reply.ts'
import type { Secret } from '../plugin/secret.ts'
import type { MessageHandler } from '../json-rpc/handle-message.ts'
import type { SendSingleWrite } from '../runtime/single-write-response.ts'
import type { Log } from '../services/log.ts'
import type { MemoryBudget } from '../services/memory-budget.ts'

/** A network as the RPC listener sees it. */
export interface NetworkEndpoint extends Pick<Network, 'name' | 'admit'> {
  readonly messageHandler: MessageHandler
}

/** What all requests and all WebSockets of the RPC listener share. */
export interface RpcServices {
  endpointAt(host: string): NetworkEndpoint | undefined
  readonly limits: GatewayLimits
  readonly log: Log
  readonly activeRequests: ActiveRequests
  /** Bytes of long responses until they have been read. */
  readonly memoryBudget: MemoryBudget
  /** Called with the length of each long response once it has been sent. */
  hintGc(byteLength: number): void
  readonly sendSingleWrite: SendSingleWrite
  /** The value of the Date header. */
  httpDate(): string
  /** Counts an HTTP response by its status. */
  countResponse(status: number): void
  /** How long a caller may read nothing of what waits for it, in ms of the system's clock: 30 s over HTTP, 5 s on a WebSocket, unless given. */
  readonly sendTimeoutMs?: number
}

/** Messages being answered, and long responses being read; stopping waits until there are none. */
export class ActiveRequests {
  #count = 0
  #onIdle: (() => void) | undefined
  /** No new work: HTTP responses say `Connection: close`. */
  isDraining = false

  begin(): void {
    this.#count += 1
  }

  end(): void {
    this.#count -= 1
    if (this.#count === 0) this.#onIdle?.()
  }

  whenIdle(): Promise<void> {
    return this.#count === 0
      ? Promise.resolve()
      : new Promise(resolve => {
          this.#onIdle = resolve
        })
  }
}

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

  /** The caller has left: ends the work that is done for it. */
  abort(): void {
    this.signal.abort()
  }
}

const requestIdPrefix = randomBytes(6).toString('hex')
let requestCount = 0

/** Unique over processes and restarts, and cheap: one random part per process, then a count. */
export const nextRequestId = (): string => `${requestIdPrefix}-${((requestCount += 1)).toString(36)}`

/** Refunds calls whose response cannot be delivered; `outcome` is what the caller gets instead. Never throws. */
export const refundCharges = ({ log }: Pick<RpcServices, 'log'>, replies: readonly Reply[], outcome: RefusalKind): void => {
  for (const { charge } of replies) {
    try {
      charge?.refund(outcome)
    } catch (bug) {
      log.error({ err: bug }, 'refund failed because of a bug')
    }
  }
}
