import type { Worker } from 'node:cluster'
import { Server } from 'node:net'
import { getSystemErrorName } from 'node:util'
import { listeningHandleOf } from './accept-queue.ts'
import type { QueueingHandle } from './accept-queue.ts'

/** A worker gets one connection at a time for each port. More without an acknowledgment mean that Node names its messages anew. */
const maxUnacknowledged = 16

/**
 * Node's primary accepts all connections. It hands each to a worker, and loses it when the worker dies before it has
 * acknowledged it: the caller would wait for ever. Here such a connection goes to another worker (nobody has read from it),
 * or is closed where there is none. The names are those of Node's own messages (20, 22, 24 and 26); where they differ, connections
 * are handed over as Node does it. The `readyWorkers` listen already.
 */
export const reassignConnections = (worker: Worker, readyWorkers: () => Iterable<Worker>): void => {
  const { process: child } = worker
  const { send } = child
  /** By the number of the message that handed it over. */
  const unacknowledged = new Set<number>()
  let hasExited = false
  child.send = (...args: unknown[]): boolean => {
    const message = args[0] as InternalMessage
    if (hasExited && message.act === 'disconnect') return false
    if (message.act === 'newconn') unacknowledged.add(message.seq)
    if (unacknowledged.size > maxUnacknowledged) {
      child.send = send
      unacknowledged.clear()
    }
    return Reflect.apply(send, child, args) as boolean
  }
  child.on('internalMessage', ({ ack }: AckMessage) => void (ack !== undefined && unacknowledged.delete(ack)))
  // By then all messages of the worker have been handled, but `disconnect` may not have come: the pipe still counts as connected.
  child.once('exit', () => {
    hasExited = true
    // Node hands the worker nothing from here on: a connection from the queue would be written into the pipe, and be lost.
    worker.disconnect()
    const hasOtherWorker = [...readyWorkers()].some(other => other.isConnected() && !other.isDead())
    for (const ack of [...unacknowledged]) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: !hasOtherWorker })
  })
}

/** To a worker: a connection, or the end of all connections. From a worker: it asks for the socket that it listens on. */
interface InternalMessage {
  readonly act?: 'newconn' | 'disconnect' | 'queryServer'
  readonly seq: number
  readonly address?: string | null
  readonly port?: number
}

/** From a worker. Where `accepted` is true, the primary closes its own end of the connection. */
interface AckMessage {
  readonly ack?: number
}

interface AcceptedConnectionsOptions {
  /** Accepted connections that may wait to be handed over to a worker: each is an open file. */
  readonly maxPending: number
  /** A connection was closed because too many wait, or could not be accepted: then the reason is a code of the system. */
  onRefused(reason: 'limit' | { readonly code: string }): void
}

/**
 * The connections that Node's primary accepts for all workers, and their listening socket, which stays open while all workers are gone: new
 * connections wait for the next one. Node shows neither. It creates the socket when the first worker asks for it, with Server.listen(), and would
 * close it with the last worker. Where that is not seen, connections are accepted as Node does it: without a limit, until the last worker stops
 * listening, which resets connections that are not handed over yet.
 *
 * Node's own ways to share a port lose connections, tried with 2 workers and 600 new connections a second. 6 stops reset 17 with SCHED_RR alone and 7 with
 * SCHED_NONE. 4 killed workers left 4 callers waiting for ever with SCHED_RR; with `reusePort` 48 were reset, and 655 where the worker had hung for 0.5 s.
 * SCHED_NONE handed one of two workers 83 of 100 connections that came at once. Here none is reset at a stop, and a killed worker resets what it has taken.
 */
export class AcceptedConnections {
  readonly #options: AcceptedConnectionsOptions
  #acceptedCount = 0
  #listening: ListeningHandle | undefined
  #closeListening = nothing
  /** What the worker has asked for that the socket was created for. */
  #query: string | undefined
  readonly #pending = new Set<ConnectionHandle>()
  readonly #waiting: ConnectionHandle[] = []
  #isHeld = false
  /** Hands a connection to a worker, as Node does it; undefined while none listens. */
  #handOver: ((connection: ConnectionHandle) => void) | undefined
  #whenNonePending = (): void => undefined

  constructor(options: AcceptedConnectionsOptions) {
    this.#options = options
  }

  /** All so far, those that were refused included. */
  get acceptedCount(): number {
    return this.#acceptedCount
  }

  /** Undefined while there is none. */
  get listening(): QueueingHandle | undefined {
    return this.#listening
  }

  /** The first worker is to listen on the socket of this server, which holds its port until then. What connects before is closed. */
  reserve(server: Server): void {
    const handle = listeningHandleOf(server) as ListeningHandle | undefined // its connections are in the same bindings
    if (handle === undefined) return
    handle.onconnection = (_status, connection) => connection?.close()
    this.#keepOpen(handle)
    this.#listening = handle
  }

  /** To be called when a worker is started. */
  addWorker({ process: child }: Worker): void {
    let endInterception = nothing
    // Node handles the message between the two.
    child.prependListener('internalMessage', (message: InternalMessage) => {
      if (message.act === 'queryServer') endInterception = this.#interceptListen(`${message.address}:${message.port}`)
    })
    child.on('internalMessage', () => {
      endInterception()
      endInterception = nothing
    })
  }

  /** From now on, new connections wait for `release()`. */
  hold(): void {
    this.#isHeld = true
  }

  release(): void {
    this.#isHeld = false
    this.#handOverWaiting()
  }

  /** No further connections, but for those that were held. */
  endListening(): void {
    this.#close()
    this.release()
  }

  /** Resolves once the workers have taken all connections. */
  async whenHandedOver(): Promise<void> {
    if (this.#pending.size > 0) await new Promise<void>(resolve => void (this.#whenNonePending = resolve))
  }

  /** Closes the socket and what waits, if no worker listens: callers are better refused than left to wait. The next worker listens anew. */
  closeUnused(): void {
    if (this.#handOver !== undefined) return
    this.#close()
    for (const connection of this.#waiting.splice(0)) connection.close()
  }

  #close(): void {
    this.#listening = undefined
    this.#closeListening()
  }

  /** Returns how to end it. */
  #interceptListen(query: string): () => void {
    if (this.#query !== undefined && this.#query !== query) return nothing
    this.#query = query
    const { listen } = Server.prototype
    const end = (): void => void (Server.prototype.listen = listen)
    const watch = (server: Server) => this.#watchWhenListening(server)
    const unused = this.#listening
    Server.prototype.listen = function (this: Server, ...args: unknown[]) {
      end()
      watch(this)
      return Reflect.apply(listen, this, unused === undefined ? args : [unused]) as Server
    }
    return end
  }

  #watchWhenListening(server: Server & { readonly _handle?: ListeningHandle }): void {
    server.once('listening', () => {
      const { _handle: handle } = server
      // Node's own listener, which comes next, takes the handle.
      if (handle !== undefined) queueMicrotask(() => this.#watch(handle))
    })
  }

  #watch(handle: ListeningHandle): void {
    const { onconnection } = handle
    if (typeof onconnection !== 'function') return
    if (handle !== this.#listening) this.#keepOpen(handle)
    this.#listening = handle
    const accept = (status: number, connection?: ConnectionHandle) => void Reflect.apply(onconnection, handle, [status, connection])
    this.#handOver = connection => accept(0, connection)
    handle.onconnection = (status, connection) => {
      this.#acceptedCount += 1
      if (connection === undefined) {
        this.#options.onRefused({ code: getSystemErrorName(status) })
        return accept(status)
      }
      if (this.#pending.size >= this.#options.maxPending) {
        connection.close()
        return this.#options.onRefused('limit')
      }
      this.#add(connection)
      this.#waiting.push(connection)
      this.#handOverWaiting()
    }
    this.#handOverWaiting()
  }

  #handOverWaiting(): void {
    if (this.#isHeld || this.#handOver === undefined) return
    for (const connection of this.#waiting.splice(0)) this.#handOver(connection)
  }

  /** Node would close the socket with the last worker that listens. */
  #keepOpen(handle: ListeningHandle): void {
    const { close } = handle
    this.#closeListening = () => Reflect.apply(close, handle, [])
    handle.close = () => void (this.#handOver = undefined)
  }

  /** The primary closes its own end of a connection once a worker has it, or no worker is left. */
  #add(connection: ConnectionHandle): void {
    this.#pending.add(connection)
    const { close } = connection
    connection.close = (...args) => {
      if (this.#pending.delete(connection) && this.#pending.size === 0) this.#whenNonePending()
      Reflect.apply(close, connection, args)
    }
  }
}

const nothing = (): void => undefined

/** A listening socket, and an accepted one, as libuv's bindings have them (Node 20, 22, 24 and 26). */
interface ListeningHandle extends QueueingHandle {
  /** Without a connection, the status is an error of the system. */
  onconnection?: (status: number, connection?: ConnectionHandle) => void
  close(): void
}

interface ConnectionHandle {
  close(...args: unknown[]): void
}
