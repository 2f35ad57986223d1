import type { IncomingMessage } from 'node:http'
import type { GatewayLimits } from '../config/types.ts'
import type { Network } from '../core/network.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import type { MemoryBudget } from '../services/memory-budget.ts'
import type { Log } from '../services/log.ts'
import type { MessageHandler } from '../json-rpc/handle-message.ts'
import { parseHost, parseRequestPath } from './request-target.ts'
import type { Transport } from './request-target.ts'
import { RequestOrigin } from './request-origin.ts'

/** A network as it stands behind its doors. */
export interface NetworkEndpoint extends Pick<Network, 'name' | 'admit'> {
  readonly messageHandler: MessageHandler
}

/** What both doors share: the networks by host, the limits, and the count of messages being answered. */
export interface RpcContext {
  endpointAt(host: string): NetworkEndpoint | undefined
  readonly limits: GatewayLimits
  readonly log: Log
  readonly activeRequests: ActiveRequests
  /** Bytes of long answers until they have been read. */
  readonly memoryBudget: MemoryBudget
  /** Told how long an answer was, once it has been sent. */
  hintGc(length: number): void
  /** The value of the Date header. */
  httpDate(): string
  /** Counts an answer that is no WebSocket message by its HTTP status. */
  countResponse(status: number): void
  /** How long a caller may read nothing of what waits for it, in ms of the system's clock: 30 s over HTTP, 5 s on a WebSocket, unless given. */
  readonly sendTimeoutMs?: number
}

export interface RoutedRequest {
  readonly endpoint: NetworkEndpoint
  readonly origin: RequestOrigin
}

/** Who calls which network, by Host header and path; the failure is a 404 with a JSON body. */
export const routeRequest = (rpcContext: RpcContext, transport: Transport, request: IncomingMessage): RoutedRequest | Failure => {
  const host = parseHost(request)
  const endpoint = host === undefined ? undefined : rpcContext.endpointAt(host)
  if (endpoint === undefined) return host === undefined ? hostRequired : unknownHost
  const path = parseRequestPath(request.url ?? '')
  if ('error' in path) return path
  if (path.transport !== transport) return transport === 'http' ? upgradeRequired : upgradeNotServed
  return { endpoint, origin: new RequestOrigin(transport, endpoint.name, path.apiKey, request) }
}

const hostRequired = refuse('notFound', {
  message: 'not found: the request must have one Host header, which names the network; the path is /v3/<API_KEY>',
})
const unknownHost = refuse('notFound', { message: 'not found: no network is served on this host; where one is, the path is /v3/<API_KEY>' })
const upgradeRequired = refuse('httpMethod', {
  message: 'this path takes WebSocket upgrades; POST to /v3/<API_KEY>',
  allow: 'GET, OPTIONS',
})
const upgradeNotServed = refuse('notFound', { message: 'not found: WebSockets open at /ws/v3/<API_KEY>' })

/** Messages being answered, and long answers being read; stopping waits until there are none. */
export class ActiveRequests {
  #count = 0
  #onIdle: (() => void) | undefined
  /** No new work: HTTP answers say `Connection: close`. */
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
