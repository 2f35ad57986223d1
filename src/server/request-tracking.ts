import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { CallerMemory } from '../services/memory-budget.ts'
import { getOrCreate } from '../util/memoize.ts'
import type { RequestOrigin } from './rpc-request.ts'
import type { RpcServices } from './rpc-services.ts'

export interface TrackedRequest {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly origin: RequestOrigin
  readonly memory: CallerMemory
}

/**
 * A request is in flight until its response has been sent, or the caller has disconnected; what is still held for it is released
 * then, but not before it has been handled: the function that is returned is to be called when it has.
 */
export const trackRequest = (
  { activeRequests, countResponse }: Pick<RpcServices, 'activeRequests' | 'countResponse'>,
  request: TrackedRequest,
): (() => void) => {
  const { req, res, origin, memory } = request
  const connection = httpConnectionOf(req.socket)
  let isHandled = false
  connection.begin()
  activeRequests.begin()
  // Emitted once the response is sent, or when the caller disconnects before that. Only then is there work to end.
  res.once('close', () => {
    if (!res.writableFinished) origin.abort()
    if (!res.headersSent) countResponse(499) // as nginx counts a caller that leaves before the response
    if (isHandled) memory.releaseAll()
    activeRequests.end()
    connection.end()
  })
  if (res.socket === null) closeResponseWithSocket(req.socket, res)
  return () => {
    isHandled = true
    if (res.destroyed) memory.releaseAll()
  }
}

/** Requests of one connection that are answered at the same time (pipelining); at this number reading from it pauses. */
const maxConcurrentRequests = 64

const connections = new WeakMap<Socket, HttpConnection>()

export const httpConnectionOf = (socket: Socket): HttpConnection => getOrCreate(connections, socket, newConnection)

const newConnection = (socket: Socket): HttpConnection => new HttpConnection(socket)

/**
 * Bounds the requests that one connection has in flight: Node starts each pipelined request as soon as it has been read, however many
 * have not been answered.
 */
class HttpConnection {
  readonly #socket: Socket
  #inFlightCount = 0
  #isPaused = false
  #isStopped = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  /** A request has come in; what has arrived with it is still served. */
  begin(): void {
    this.#inFlightCount += 1
    if (this.#inFlightCount >= maxConcurrentRequests) this.#stopReading()
  }

  /** Reads nothing more from the connection, which is to be closed. */
  stop(): void {
    this.#isStopped = true
    this.#stopReading()
  }

  /** Its response has been sent, or the caller has disconnected. */
  end(): void {
    this.#inFlightCount -= 1
    if (!this.#isPaused || this.#isStopped || this.#inFlightCount > maxConcurrentRequests / 2) return
    this.#isPaused = false
    this.#socket.off('resume', this.#pause)
    this.#socket.resume()
  }

  #stopReading(): void {
    if (this.#isPaused) return
    this.#isPaused = true
    // Node resumes the socket after each request, and each part of a body, that it has read.
    this.#socket.on('resume', this.#pause)
    this.#socket.pause()
  }

  readonly #pause = (): void => void this.#socket.pause()
}

/** Node does not close a response that waits behind others of its connection (pipelining) when that connection closes. */
const closeResponseWithSocket = (socket: Socket, res: ServerResponse): void => {
  const close = () => {
    res.destroy()
    res.emit('close')
  }
  socket.setMaxListeners(0).on('close', close)
  res.once('close', () => socket.off('close', close))
}
