import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Cancellation } from '../plugin/call.ts'
import type { Origin, OriginState, Push } from '../plugin/call.ts'
import type { Secret } from '../plugin/secret.ts'
import { hasKey } from '../util/key-mask.ts'

/** One HTTP request or one WebSocket, as plugins see it. */
export class RequestOrigin implements Origin {
  readonly transport: Origin['transport']
  readonly network: string
  readonly key: Secret | undefined
  readonly ip: string
  readonly originHeader: string | undefined
  readonly headers: Origin['headers']
  readonly requestId: string
  /** On the monotonic clock; undefined where nothing reports how long requests take. */
  receivedAtMs: number | undefined
  readonly signal = new Cancellation()
  readonly state: OriginState = {}
  /** Set once the WebSocket is open. */
  push: Push | undefined

  constructor(request: IncomingMessage, { transport, network, key, ip }: Pick<Origin, 'transport' | 'network' | 'key' | 'ip'>) {
    this.transport = transport
    this.network = network
    this.key = key
    this.ip = ip
    this.headers = request.headers
    this.originHeader = request.headers.origin
    this.requestId = requestIdOf(request)
  }

  /** The caller has disconnected: cancels the work for its calls. */
  abort(): void {
    this.signal.abort()
  }
}

const requestIdBytes = 12
const requestIdChars = 2 * requestIdBytes
const maxPendingIds = 256
let pendingIds = ''
let pendingIdsOffset = 0

/**
 * Random, so that nobody can tell from it how many requests there are. As cheap as a count after a random prefix: 50 to 70 ns,
 * as random bytes are fetched for many ids at a time.
 */
export const nextRequestId = (): string => {
  if (pendingIdsOffset === pendingIds.length) {
    pendingIds = randomBytes(requestIdBytes * maxPendingIds).toString('hex')
    pendingIdsOffset = 0
  }
  return pendingIds.slice(pendingIdsOffset, (pendingIdsOffset += requestIdChars))
}

/** No quotes, spaces or control characters: it is written to headers and logs as it came. */
const requestIdPattern = /^[\w.:/+=@-]{1,128}$/

/** The caller's `X-Request-Id`, where it is well-formed and no API key: a proxy in front of the gateway has logged it. */
export const requestIdOf = ({ headers }: IncomingMessage): string => {
  const id = headers['x-request-id']
  return typeof id === 'string' && requestIdPattern.test(id) && !hasKey(id) ? id : nextRequestId()
}
