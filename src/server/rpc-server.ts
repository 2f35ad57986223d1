import type { IncomingMessage, RequestListener, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { ignoreUpgrade, trackResponses } from '../runtime/http-connection.ts'
import type { CurrentResponse } from '../runtime/http-connection.ts'
import { createHttpServer } from './http-server.ts'
import { UpgradeResponse, sendRawResponse } from './response.ts'
import { nextRequestId } from './rpc-services.ts'
import type { RpcServices } from './rpc-services.ts'

/**
 * An HTTP server that passes every request to the listener: also upgrades, CONNECT and requests with an unknown expectation,
 * for which Node has events of their own. What Node's HTTP parser refuses gets an error response of the gateway.
 */
export const createRpcServer = (services: Pick<RpcServices, 'countResponse'>, serve: RequestListener): Server => {
  const server = createHttpServer(serve, { shouldUpgradeCallback: isWebSocketUpgrade })
  const currentResponse = trackResponses(server)
  const serveUpgrade = (request: IncomingMessage, stream: Duplex, head: Buffer): void => {
    stream.on('error', () => stream.destroy())
    whenResponded(currentResponse, stream, () => serve(request, new UpgradeResponse(request, stream, head)))
  }
  server.on('checkExpectation', serve) // an unknown expectation may be ignored (RFC 9110, 10.1.1)
  server.on('connect', serveUpgrade)
  server.on('upgrade', (request, stream, head) => {
    if (isWebSocketUpgrade(request)) serveUpgrade(request, stream, head)
    // Only where Node does not have `shouldUpgradeCallback` (before 22.21 and 24.9).
    else whenResponded(currentResponse, stream, () => ignoreUpgrade(server, request, stream, head))
  })
  server.on('clientError', ({ code = '' }: NodeJS.ErrnoException, stream: Duplex) =>
    respondToParserError(services, currentResponse, stream, failureByParserError[code] ?? malformedRequest),
  )
  return server
}

const isWebSocketUpgrade = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket'

/** Runs once all requests that came before on this connection have been answered. */
const whenResponded = (currentResponse: CurrentResponse, stream: Duplex, run: () => void): void => {
  const current = currentResponse(stream)
  if (current === undefined) run()
  else current.once('finish', () => whenResponded(currentResponse, stream, run))
}

/** Not before the response to a whole request that came first; and not behind the head of a response to this one. */
const respondToParserError = (
  services: Pick<RpcServices, 'countResponse'>,
  currentResponse: CurrentResponse,
  stream: Duplex,
  failure: Failure,
): void => {
  const current = currentResponse(stream)
  if (!stream.writable) stream.destroy()
  else if (current?.req.complete === true) current.once('finish', () => respondToParserError(services, currentResponse, stream, failure))
  else if (current?.headersSent === true) stream.destroy()
  else sendRawResponse(services, stream, nextRequestId(), failureResponse(failure))
}

const malformedRequest = refuse('malformed')

const failureByParserError: Readonly<Record<string, Failure>> = {
  HPE_HEADER_OVERFLOW: refuse('headersTooLarge'),
  ERR_HTTP_REQUEST_TIMEOUT: refuse('late'),
}
