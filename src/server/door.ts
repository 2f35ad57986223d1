import type { IncomingMessage } from 'node:http'
import type { Limits } from '../config/types.ts'
import type { Network } from '../network.ts'
import { refuse } from '../reply.ts'
import type { Failure } from '../reply.ts'
import type { Room } from '../services/agents/room.ts'
import type { Log } from '../services/log.ts'
import type { Door } from '../wire/answer.ts'
import { readHost, readPath } from './address.ts'
import type { Transport } from './address.ts'
import { Caller } from './origin.ts'

/** A network as it stands behind its doors. */
export interface Served extends Pick<Network, 'name' | 'admit'> {
  readonly door: Door
}

/** What both doors share: the networks by host, the limits, and the count of messages being answered. */
export interface Doors {
  networkAt(host: string): Served | undefined
  readonly limits: Limits
  readonly log: Log
  readonly traffic: Traffic
  /** Bytes of long answers until they have been read. */
  readonly room: Room
  /** Told how long an answer was, once it has been sent. */
  tidy(length: number): void
  /** The value of the Date header. */
  date(): string
  /** Counts an answer that is no WebSocket message by its HTTP status. */
  answered(status: number): void
  /** How long a caller may read nothing of what waits for it, in ms of the system's clock: 30 s over HTTP, 5 s on a WebSocket, unless given. */
  readonly patience?: number
}

export interface Visit {
  readonly network: Served
  readonly caller: Caller
}

/** Who calls which network, by Host header and path; the failure is a 404 with a JSON body. */
export const readVisit = (doors: Doors, transport: Transport, request: IncomingMessage): Visit | Failure => {
  const host = readHost(request)
  const network = host === undefined ? undefined : doors.networkAt(host)
  if (network === undefined) return host === undefined ? hostless : strange
  const path = readPath(request.url ?? '')
  if ('error' in path) return path
  if (path.transport !== transport) return transport === 'http' ? upgradeMissing : upgradeWrong
  return { network, caller: new Caller(transport, network.name, path.key, request) }
}

const hostless = refuse('notFound', {
  message: 'not found: the request must have one Host header, which names the network; the path is /v3/<API_KEY>',
})
const strange = refuse('notFound', { message: 'not found: no network is served on this host; where one is, the path is /v3/<API_KEY>' })
const upgradeMissing = refuse('httpMethod', { message: 'this path takes WebSocket upgrades; POST to /v3/<API_KEY>', allow: 'GET, OPTIONS' })
const upgradeWrong = refuse('notFound', { message: 'not found: WebSockets open at /ws/v3/<API_KEY>' })

/** Messages being answered, and long answers being read; stopping waits until there are none. */
export class Traffic {
  #count = 0
  #whenQuiet: (() => void) | undefined
  /** No new work: HTTP answers say `Connection: close`. */
  draining = false

  enter(): void {
    this.#count += 1
  }

  leave(): void {
    this.#count -= 1
    if (this.#count === 0) this.#whenQuiet?.()
  }

  quiet(): Promise<void> {
    return this.#count === 0
      ? Promise.resolve()
      : new Promise(resolve => {
          this.#whenQuiet = resolve
        })
  }
}
