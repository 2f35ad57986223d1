import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { refuse } from '../plugin/reply.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { sendRawResponse } from './response.ts'
import type { RawResponseServices } from './response.ts'
import type { WsConnection } from './ws-connection.ts'
import { requestIdOf } from './request-origin.ts'
import type { RpcServices } from './rpc-services.ts'

/** Accepts an upgrade: `open` is called with its WebSocket, unless the handshake is refused, which is responded to. */
export type AcceptUpgrade = (request: IncomingMessage, stream: Duplex, head: Buffer, open: (socket: RpcWebSocket) => void) => void

/** Frames of one message: ws holds each by itself, however short it is. */
const maxFragments = 1_024
/** Chunks of one frame, as they come over the network. */
const maxBufferedChunks = 4_096

export const createUpgradeHandler = (services: Pick<RpcServices, 'limits'> & RawResponseServices): AcceptUpgrade => {
  const server = new WebSocketServer<typeof RpcWebSocket>({
    noServer: true,
    maxPayload: services.limits.body,
    maxFragments,
    maxBufferedChunks,
    perMessageDeflate: false,
    clientTracking: false,
    autoPong: false,
    // A message that is not UTF-8 gets an error, and a close frame whose reason is not UTF-8 gets none: ws reports both as the same.
    skipUTF8Validation: true,
    // JSON-RPC has no registered subprotocol: none that is offered is agreed to.
    handleProtocols: () => false,
    WebSocket: RpcWebSocket,
  })
  const respond = (stream: Duplex, request: IncomingMessage, response: RpcResponse): void =>
    sendRawResponse(services, stream, { requestId: requestIdOf(request) }, response, ['Sec-WebSocket-Version', '13'])
  server.on('wsClientError', ({ message }, stream, request) => respond(stream, request, malformedHandshake(message)))
  return (request, stream, head, open) => {
    const version = request.headers['sec-websocket-version']
    // ws itself accepts 8 too, a draft from before RFC 6455.
    if (version !== undefined && version !== '13') return respond(stream, request, unsupportedVersion)
    request.headers.upgrade = 'websocket' // chosen of those that the caller offers; ws takes no list
    server.handleUpgrade(request, stream, head, open)
  }
}

/** A WebSocket that reports to its connection what ws does by itself: ws calls close() when the caller closes or breaks the protocol. */
export class RpcWebSocket extends WebSocket {
  /** Set once the WebSocket is open; until it closes. */
  connection: WsConnection | undefined

  /** The reason is a text where the gateway closes, bytes where ws returns the caller's close frame, and absent after a frame that ws refuses. */
  override close(code?: number, reason?: string | Buffer): void {
    const { connection } = this
    if (connection === undefined || typeof reason === 'string') return super.close(code, reason)
    this.connection = undefined
    if (code === 1009 && reason === undefined) {
      connection.sendResponse(messageTooLarge)
      return connection.close(code, '')
    }
    if (reason === undefined || isUtf8(reason)) super.close(code, reason)
    else super.close(1007)
    connection.abort()
  }
}

const messageTooLarge = failureResponse(refuse('bodyTooLarge'))
const unsupportedVersion = failureResponse(refuse('upgradeRequired', { message: 'the WebSocket version must be 13' }))

const malformedHandshake = (problem: string): RpcResponse =>
  failureResponse(refuse('malformed', { message: `the WebSocket handshake is malformed: ${problem}` }))
