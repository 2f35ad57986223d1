import { createRequire } from 'node:module'
import type * as Undici from 'undici'
import type { Dispatcher } from 'undici'
import type { Clock } from '../clock.ts'
import { createCoalescingLookup } from './coalescing-lookup.ts'
import { connectTimeoutMs, maxConnectionAgeMs } from './http-connection.ts'
import type {
  ConnectionOwner,
  HttpRequest,
  NewConnection,
  NodeConnection,
  ResponseHandler,
  ResponseHeaders,
  SocketLimit,
} from './http-connection.ts'
import { noSocketLeft } from './network-errors.ts'

/** undici's own response timers are coarse and count idle time only: RequestDeadline aborts a request in time. */
const clientOptions = { headersTimeout: 0, bodyTimeout: 0, keepAliveMaxTimeout: maxConnectionAgeMs }

/** Error codes of connections that the pool ends, or undici because they were idle for long. */
const localDisconnectCodes: ReadonlySet<string> = new Set(['UND_ERR_DESTROYED', 'UND_ERR_INFO'])

/** Connections by undici to one origin. It is loaded here: few gateways need it, and it takes 80 ms of CPU and 13 MB. */
export const createUndiciConnections = (origin: string, limit: SocketLimit, clock: Clock): NewConnection => {
  const { Client, buildConnector } = createRequire(import.meta.url)('undici') as typeof Undici // what the package exports
  // One for all connections, as it keeps the TLS sessions.
  const connect = limitSockets(buildConnector({ timeout: connectTimeoutMs, lookup: createCoalescingLookup() }), limit)
  return owner => new UndiciConnection(new Client(origin, { ...clientOptions, connect }), owner, clock)
}

class UndiciConnection implements NodeConnection {
  isOpen = false
  expiresAtMs = Infinity
  readonly #client: Undici.Client
  #controller: Dispatcher.DispatchController | undefined

  constructor(client: Undici.Client, owner: ConnectionOwner, clock: Clock) {
    this.#client = client
    client.on('connect', () => {
      this.isOpen = true
      this.expiresAtMs = clock.monotonic() + maxConnectionAgeMs
    })
    client.on('disconnect', (_origin, _targets, error) => {
      this.isOpen = false
      if (!localDisconnectCodes.has(error.code)) owner.onDisconnect(this)
    })
  }

  send({ endpoint: { path, headers }, body }: HttpRequest, handler: ResponseHandler): void {
    this.#client.dispatch({ method: 'POST', path, headers: [...headers], body }, this.#passOnTo(handler))
  }

  pause(): void {
    this.#controller?.pause()
  }

  resume(): void {
    this.#controller?.resume()
  }

  destroy(): void {
    this.isOpen = false
    void this.#client.destroy()
  }

  #passOnTo(handler: ResponseHandler): Dispatcher.DispatchHandler {
    return {
      onRequestStart: controller => {
        this.#controller = controller
        handler.onStart()
      },
      onResponseStart(_controller, status, headers: ResponseHeaders) {
        if (status >= 200) handler.onHeaders(status, headers)
      },
      onResponseData: (_controller, chunk) => handler.onData(chunk),
      onResponseEnd: () => handler.onEnd(),
      onResponseError: (_controller, error) => handler.onError(error),
    }
  }
}

type Connector = ReturnType<typeof Undici.buildConnector>

const limitSockets =
  (connect: Connector, limit: SocketLimit): Connector =>
  (options, callback) => {
    if (!limit.acquire()) return callback(noSocketLeft(), null)
    connect(options, (...[error, socket]) => {
      if (error !== null)
        limit.release() // undici then gives no second argument
      else socket.once('close', () => limit.release())
      callback(...([error, socket] as Parameters<typeof callback>)) // the same two arguments
    })
  }
