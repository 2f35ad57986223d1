import type { GatewayConfig } from '../config/types.ts'
import type { SendSingleWrite } from '../runtime/http-internals.ts'
import type { AccessLog } from '../services/access-log.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import type { MemoryBudget } from '../services/memory-budget.ts'
import { InFlight } from '../util/async.ts'
import type { ReadClientAddress } from './client-address.ts'
import type { FairScheduler } from './fair-scheduler.ts'
import type { EndpointByHost } from './reloadable-endpoints.ts'
import type { ReadPacing } from './read-pacing.ts'
import type { ResponseCompressor } from './response-compressor.ts'

/** What all requests and all WebSockets of the RPC listener share. */
export interface RpcServices {
  readonly endpointByHost: EndpointByHost
  readonly readClientAddress: ReadClientAddress
  readonly limits: GatewayConfig['limits']
  readonly log: Log
  readonly activeRequests: ActiveRequests
  /** Whose calls are handled first when there are many. */
  readonly scheduler: FairScheduler
  /** Whose connections are read first when calls wait. */
  readonly readPacing: ReadPacing
  /** Bounds the bytes that are held for callers: requests, calls in flight, and responses until they have been read. */
  readonly memoryBudget: MemoryBudget
  /** Called with the length of each long response once it has been sent. */
  hintGc(byteLength: number): void
  readonly sendSingleWrite: SendSingleWrite
  readonly compressor: ResponseCompressor
  /** The value of the Date header. */
  httpDate(): string
  readonly clock: Pick<Clock, 'monotonic' | 'every'>
  readonly accessLog: AccessLog
  /** Counts an HTTP response by its status. */
  countResponse(status: number): void
  /** A caller that reads less than 16 KiB/s of its responses for so long is disconnected, in ms: 30 s over HTTP, 5 s on a WebSocket, unless given. */
  readonly sendTimeoutMs?: number
}

/** Messages being answered, and long responses being read; stopping waits until there are none. */
export class ActiveRequests extends InFlight {
  /** No new work: HTTP connections close after the responses to the requests that have begun. */
  isDraining = false
  /** The time to finish it is over: whoever gets no whole response now has not left, and pays nothing. */
  isGivenUp = false
}
