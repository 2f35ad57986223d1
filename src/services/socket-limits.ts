import { readFileSync } from 'node:fs'
import type { Clock } from './clock.ts'
import type { Log } from './log.ts'
import { metricDefinitions } from './metric-definitions.ts'
import type { Counter, Metrics } from './metrics.ts'

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

const minLogIntervalMs = 10_000

/** A socket to a caller or to a node. */
type Peer = 'caller' | 'upstream'

/** Counts the sockets that this process could not have, and logs one of them now and then. */
export class RefusedSockets {
  readonly #clock: Clock
  readonly #log: Log
  readonly #refused: Readonly<Record<Peer, Counter>>
  readonly #lastLoggedAt = new Map<Peer, number>()

  constructor({ clock, log, metrics }: RefusedSocketsOptions) {
    this.#clock = clock
    this.#log = log
    this.#refused = {
      caller: metrics.counter(metricDefinitions.socketsRefused, { peer: 'caller' }),
      upstream: metrics.counter(metricDefinitions.socketsRefused, { peer: 'upstream' }),
    }
  }

  /** `reason` is a code of the operating system, or a limit of the configuration. */
  readonly recordRefused = (peer: Peer, reason: string): void => {
    this.#refused[peer].add()
    const now = this.#clock.monotonic()
    if (now - (this.#lastLoggedAt.get(peer) ?? -Infinity) < minLogIntervalMs) return
    this.#lastLoggedAt.set(peer, now)
    this.#log.error({ event: 'socket-refused', peer, reason }, peer === 'caller' ? 'connection refused: too many connections' : noSocket)
  }
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
    this.maxUpstreamSockets = maxSockets(openFiles) - this.maxConnections
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
