import { readFileSync } from 'node:fs'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import { LogInterval } from './log-interval.ts'
import { metricDefinitions } from './metric-definitions.ts'
import type { Counter, Metrics } from './metrics.ts'
import { getOrCreate } from '../util/memoize.ts'

interface RefusedSocketsOptions {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

interface SocketLimitsOptions extends RefusedSocketsOptions {
  /** Connections of callers that this process may accept, as configured. */
  readonly connections: number
  /** Files that this process may have open. */
  readonly openFiles?: number
}

/** Files for the store, the log, the listeners and what Node opens itself. */
const reservedFileCount = 64

/** Of the other open files, the part for connections of callers; the rest is for connections to nodes. */
const callerShare = 0.75

/** Of the other open files, the part for connections to the admin listener, and the same again for the portal; taken from that for nodes. */
const operatorShare = 1 / 32
const minOperatorConnections = 4
const maxOperatorConnections = 512

/** Who has opened a connection: a caller, or a browser or a program of an operator (`admin`) or of a developer (`portal`). */
export type ConnectionPeer = 'caller' | 'admin' | 'portal'

/** Whose socket it is. */
type Peer = ConnectionPeer | 'upstream'

/**
 * Why there is no socket, or why there is none any more: the limit of connections is reached (`limit`), the account or the address holds as many
 * connections as are free (`share`), or an idle connection was closed for another holder's (`replaced`).
 */
export type SocketRefusal = 'limit' | 'share' | 'replaced'

/** In place of all codes of the operating system. */
const systemReason = 'system'

/** Counts the sockets that this process could not have, or has closed for others, and logs one of them now and then. */
export class RefusedSockets {
  readonly #log: Log
  readonly #counters = new Map<string, Counter>()
  readonly #counterOf: (peer: Peer, reason: string) => Counter
  readonly #logInterval: LogInterval

  constructor({ clock, log, metrics }: RefusedSocketsOptions) {
    this.#log = log
    this.#logInterval = new LogInterval(clock)
    const { socketsRefused } = metricDefinitions
    this.#counterOf = (peer, reason) =>
      getOrCreate(this.#counters, `${peer} ${reason}`, () => metrics.counter(socketsRefused, { peer, reason }))
    for (const peer of ['caller', 'admin', 'portal'] as const)
      for (const reason of ['limit', 'share', 'replaced', systemReason]) this.#counterOf(peer, reason)
    this.#counterOf('upstream', systemReason)
  }

  /** `holder` is the account or the address that has the connection. */
  readonly recordRefused = (peer: Peer, reason: SocketRefusal | { readonly code: string }, holder?: string): void => {
    const kind = typeof reason === 'string' ? reason : systemReason
    this.#counterOf(peer, kind).add()
    if (!this.#logInterval.begin(`${peer} ${kind}`)) return
    const fields = { event: 'socket-refused', peer, reason: typeof reason === 'string' ? reason : reason.code, holder }
    if (kind === 'share' || kind === 'replaced') this.#log.warn(fields, explanations[kind])
    else this.#log.error(fields, peer === 'upstream' ? noSocket : explanations.limit)
  }
}

const explanations: Readonly<Record<SocketRefusal, string>> = {
  limit: 'connection refused: too many connections',
  share: 'connection refused: its account or address holds as many connections as are free',
  replaced: 'idle connection closed for one of another caller: too many connections, of which its holder has most',
}

/**
 * Bounds the connections of callers so that files are left for nodes, the store and the admin listener, and counts the sockets
 * that this process could not have. Such a socket is the fault of this process or its machine, never of a node.
 */
export class SocketLimits extends RefusedSockets {
  /** Connections of callers. */
  readonly maxConnections: number
  /** Connections to nodes. */
  readonly maxUpstreamSockets: number

  /** Logs when the configured connections do not fit. */
  constructor({ connections, openFiles = readMaxOpenFiles() ?? Infinity, ...options }: SocketLimitsOptions) {
    super(options)
    this.maxConnections = maxCallerSockets(connections, openFiles)
    this.maxUpstreamSockets = Math.max(1, maxSockets(openFiles) - this.maxConnections - 2 * maxOperatorSockets(openFiles))
    if (this.maxConnections === connections) return
    const needed = Math.ceil(connections / callerShare) + reservedFileCount
    options.log.warn(
      { event: 'open-files', openFiles, needed, maxConnections: this.maxConnections },
      `ulimit -n is ${openFiles}: the process accepts ${this.maxConnections} connections, not ${connections}; raise it to ${needed}`,
    )
  }
}

/** Of so many connections of callers, those for which this process has files. */
export const maxCallerSockets = (connections: number, openFiles = readMaxOpenFiles() ?? Infinity): number =>
  Math.min(connections, Math.floor(callerShare * maxSockets(openFiles)))

/** The connections that the admin listener, or the portal, may have open. */
export const maxOperatorSockets = (openFiles = readMaxOpenFiles() ?? Infinity): number =>
  Math.min(maxOperatorConnections, Math.max(minOperatorConnections, Math.floor(operatorShare * maxSockets(openFiles))))

const maxSockets = (openFiles: number): number => Math.max(2, openFiles - reservedFileCount)

const noSocket = 'no socket for a connection to an upstream: raise ulimit -n, or lower limits.connections'

/** The soft limit, which Node.js raises to the hard one at its start. Undefined where the system does not tell: it is not Linux. */
export const readMaxOpenFiles = (): number | undefined => {
  try {
    return Number(/^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity)
  } catch {
    return undefined
  }
}
