import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener, Server } from 'node:http'
import type { AddressInfo, ListenOptions } from 'node:net'
import type { Address } from '../config/types.ts'

/** The address is taken, or not this machine's. The message is for the operator. */
export class ListenError extends Error {}

/** Idle connections are kept so long, in ms: longer than the 60 s after which common load balancers drop them, so that they close first. */
export const keepAliveTimeoutMs = 65_000

export interface HttpServerOptions {
  /** Which upgrades become `upgrade` events; other requests with an Upgrade header are served as if they had none. Node 22.21 and 24.9. */
  shouldUpgradeCallback?(request: IncomingMessage): boolean
}

/** An HTTP server with the limits that keep slow and silent clients from holding it (headers 10 s, request 30 s). */
export const createHttpServer = (serve: RequestListener, options: HttpServerOptions = {}): Server =>
  createServer(
    {
      ...options,
      headersTimeout: 10_000,
      requestTimeout: 30_000,
      connectionsCheckingInterval: 1000,
      keepAliveTimeout: keepAliveTimeoutMs,
      // A request without a Host header is answered from the table (404), not with Node's bare 400.
      requireHostHeader: false,
      noDelay: true,
    },
    serve,
  )

/** Resolves with the URL that it listens on; port 0 takes a free one. With `reusePort`, other processes may listen on the port too. */
export const listen = (server: Server, { host, port }: Address, reusePort = false): Promise<string> =>
  new Promise((resolve, reject) => {
    const options: ListenOptions & { reusePort: boolean } = { host, port, reusePort }
    server.once('error', (error: NodeJS.ErrnoException) => reject(new ListenError(explainListenError(error, host, port))))
    server.listen(options, () => {
      const bound = server.address() as AddressInfo // a TCP server has no other kind of address
      resolve(urlOf(host, bound.port))
    })
  })

export const urlOf = (host: string, port: number): string => `http://${host.includes(':') ? `[${host}]` : host}:${port}`

const explainListenError = (error: NodeJS.ErrnoException, host: string, port: number): string => {
  const hostAndPort = `${host}:${port}`
  switch (error.code) {
    case 'EADDRINUSE':
      return `cannot listen on ${hostAndPort}: the port is in use; stop what runs there or change \`listen\` in gateway.yaml`
    case 'EADDRNOTAVAIL':
      return `cannot listen on ${hostAndPort}: this machine does not have that address`
    case 'EACCES':
      return `cannot listen on ${hostAndPort}: this user may not open that port`
    default:
      return `cannot listen on ${hostAndPort}: ${error.message}`
  }
}

/** Loads a listener with its first request. */
export const lazyListener = (load: () => Promise<RequestListener>): RequestListener => {
  let loading: Promise<RequestListener> | undefined
  return (req, res) => void (loading ??= load()).then(serve => serve(req, res))
}

/** Stops accepting, and closes idle connections. */
export const closeServer = (server: Server): Promise<void> =>
  new Promise(resolve => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })
