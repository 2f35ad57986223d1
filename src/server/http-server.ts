import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener, Server, ServerOptions, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import type { AddressInfo, Server as TcpServer } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Address } from '../config/types.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { ignoreUpgrade, trackResponses } from '../runtime/http-internals.ts'
import type { CurrentResponse } from '../runtime/http-internals.ts'
import type { ParserError } from '../runtime/parser-input.ts'
import { callerConnectionOf } from './caller-connection.ts'
import { UpgradeResponse, destroyStream, sendRawResponse } from './response.ts'
import type { RawResponseServices } from './response.ts'
import { nextRequestId } from './request-origin.ts'

/** The address is taken, or not this machine's. The message is for the operator. */
export class ListenError extends Error {}

/** Idle connections are kept so long, in ms: longer than the 60 s after which common load balancers drop them, so that they close first. */
export const keepAliveTimeoutMs = 65_000

/** Creates servers that accept TLS. */
export interface TlsServers {
  createServer(options: ServerOptions, serve: RequestListener): Server
}

interface HttpServerOptions {
  /** For HTTPS; without it, the server speaks plain HTTP. */
  readonly tls?: TlsServers | undefined
}

/** An HTTP server with the limits that keep slow and silent clients from holding it (headers 10 s, request 30 s). */
export const createHttpServer = (serve: RequestListener, { tls }: HttpServerOptions = {}): Server => {
  const serverOptions = {
    headersTimeout: 10_000,
    requestTimeout: 30_000,
    connectionsCheckingInterval: 1000,
    keepAliveTimeout: keepAliveTimeoutMs,
    // A request without a Host header is answered from the table, not with Node's bare 400.
    requireHostHeader: false,
    noDelay: true,
  }
  return tls === undefined ? createServer(serverOptions, serve) : tls.createServer(serverOptions, serve)
}

/** Resolves with the port that it listens on; port 0 takes a free one. */
export const listen = (server: TcpServer, address: Address): Promise<number> =>
  new Promise((resolve, reject) => {
    // Errors of accept() come later, and end nothing.
    server.on('error', (error: NodeJS.ErrnoException) => reject(new ListenError(explainListenError(error, address))))
    server.listen(address, () => {
      const bound = server.address() as AddressInfo // a TCP server has no other kind of address
      resolve(bound.port)
    })
  })

const explainListenError = (error: NodeJS.ErrnoException, { host, port }: Address): string => {
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

/** Stops accepting, and closes idle connections. */
export const closeServer = (server: Server): Promise<void> =>
  new Promise(resolve => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })

/**
 * An HTTP server that passes every request to the listener: also upgrades, CONNECT and requests with an expectation, for
 * which Node has events of their own. What Node's HTTP parser refuses gets an error response of the gateway.
 */
export const createRpcServer = (services: RawResponseServices, serve: RequestListener, tls?: TlsServers): Server => {
  const server = createHttpServer(serve, { tls })
  const currentResponse = trackResponses(server)
  const serveUpgrade = (request: IncomingMessage, stream: Duplex, head: Buffer): void => {
    // A connection may have many upgrades that are ignored.
    if (stream.listenerCount('error', destroyStream) === 0) stream.on('error', destroyStream)
    const run = (): void =>
      request.method === 'CONNECT' || isWebSocketUpgrade(request)
        ? serve(request, new UpgradeResponse(request, stream, head))
        : ignoreUpgrade(server, request, stream, head)
    if (callerConnectionOf(request.socket).upgrade()) whenResponded(currentResponse, stream, run)
  }
  server.on('checkContinue', serve) // 100 (Continue) is sent once the headers have been accepted
  server.on('checkExpectation', serve) // an unknown expectation may be ignored (RFC 9110, 10.1.1)
  server.on('connect', serveUpgrade)
  server.on('upgrade', serveUpgrade)
  const waiting = new WeakSet<Duplex>()
  server.on('clientError', (error: ParserError, stream: Duplex) => {
    const { code = '' } = error
    if (stream instanceof Socket && callerConnectionOf(stream).recordHeld(error)) return
    // Each piece that comes behind the first malformed one is reported too, also while the response to that is sent.
    if (waiting.has(stream) || (stream.writableEnded && code.startsWith('HPE_'))) return
    waiting.add(stream)
    const failure = failureOf(error)
    const respond = (): void =>
      whenComplete(currentResponse, stream, () => {
        waiting.delete(stream)
        respondToParserError(services, currentResponse(stream), stream, failure)
      })
    if (code === timeoutCode && stream instanceof Socket)
      whenRead(currentResponse, stream, isComplete => {
        if (!isComplete) return respond()
        waiting.delete(stream)
        // Node times each request once.
        callerConnectionOf(stream).whenLatestIsNext(() => server.emit('clientError', error, stream))
      })
    else respond()
  })
  return server
}

/** The caller may offer several protocols. HTTP/1.0 has no upgrades: such an offer is ignored (RFC 9110, 7.8). */
const isWebSocketUpgrade = ({ method, httpVersion, headers }: IncomingMessage): boolean =>
  method === 'GET' && httpVersion === '1.1' && /(^|,)[ \t]*websocket[ \t]*(,|$)/i.test(headers.upgrade ?? '')

/** Runs once all requests that came before on this connection have been answered. */
const whenResponded = (currentResponse: CurrentResponse, stream: Duplex, run: () => void): void => {
  const current = currentResponse(stream)
  if (current === undefined) run()
  else current.once('finish', () => whenResponded(currentResponse, stream, run))
}

/**
 * Runs once what has arrived is read. A process that was stopped for longer than the timeout of a request, or whose machine was, finds the timeout
 * exceeded before it reads a request that has arrived in time; so does one in which a connection waits for its turn to be read for so long.
 */
const whenRead = (currentResponse: CurrentResponse, socket: Socket, run: (isComplete: boolean) => void): void => {
  const { bytesWritten } = socket
  const check = (): void => {
    const { turn } = callerConnectionOf(socket)
    if (turn === undefined) run(currentResponse(socket)?.req.complete === true || socket.bytesWritten !== bytesWritten)
    // The first of these may come in a turn of the event loop that has read already.
    else void turn.then(() => setImmediate(() => setImmediate(check)))
  }
  setImmediate(check)
}

/** Runs once all whole requests that came before on this connection have been answered. */
const whenComplete = (currentResponse: CurrentResponse, stream: Duplex, run: () => void): void => {
  const current = currentResponse(stream)
  if (stream.writable && current?.req.complete === true) current.once('finish', () => whenComplete(currentResponse, stream, run))
  else run()
}

/** Not behind the head of a response to this request. */
const respondToParserError = (
  services: RawResponseServices,
  current: ServerResponse | undefined,
  stream: Duplex,
  failure: Failure,
): void => {
  if (!stream.writable || current?.headersSent === true) stream.destroy()
  else sendRawResponse(services, stream, { requestId: nextRequestId() }, failureResponse(failure))
}

const failureOf = (error: ParserError): Failure =>
  hasUnknownMethod(error) ? refuse('httpMethod') : (failureByParserError[error.code ?? ''] ?? refuse('malformed'))

/** Is it a request but for its method, which Node does not know, such as `post`? The parser stops within the method. */
const hasUnknownMethod = ({ code, rawPacket, bytesParsed = 0 }: ParserError): boolean => {
  if (code !== 'HPE_INVALID_METHOD' || rawPacket === undefined) return false
  const [begun = ''] = /[\w-]*$/.exec(rawPacket.toString('latin1', Math.max(0, bytesParsed - maxMethodChars), bytesParsed)) ?? []
  return /^[A-Za-z][\w-]* \S+ HTTP\/1\.[01]\r\n/.test(begun + rawPacket.toString('latin1', bytesParsed))
}

const maxMethodChars = 32

const timeoutCode = 'ERR_HTTP_REQUEST_TIMEOUT'

const failureByParserError: Readonly<Record<string, Failure>> = {
  HPE_HEADER_OVERFLOW: refuse('headersTooLarge'),
  [timeoutCode]: refuse('late'),
}
