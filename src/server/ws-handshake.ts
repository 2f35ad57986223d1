import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { refuse } from '../plugin/reply.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { sendRawResponse } from './response.ts'
import type { WsConnection } from './ws-connection.ts'
import { nextRequestId } from './rpc-request.ts'
import type { RpcServices } from './rpc-services.ts'

/** Accepts an upgrade: `open` is called with its WebSocket, unless the handshake is malformed, which is responded to. */
export type AcceptUpgrade = (request: IncomingMessage, stream: Duplex, head: Buffer, open: (socket: RpcWebSocket) => void) => void

export const createUpgradeHandler = (services: Pick<RpcServices, 'limits' | 'countResponse'>): AcceptUpgrade => {
  const server = new WebSocketServer<typeof RpcWebSocket>({
    noServer: true,
    maxPayload: services.limits.frame,
    perMessageDeflate: false,
    clientTracking: false,
    WebSocket: RpcWebSocket,
  })
  server.on('wsClientError', ({ message }, stream) =>
    sendRawResponse(services, stream, nextRequestId(), malformedHandshake(message), ['Sec-WebSocket-Version', '13']),
  )
  return (request, stream, head, open) => server.handleUpgrade(request, stream, head, open)
}

/** Sends an error response to a message over the limit, and to text that is not UTF-8, before ws closes the connection for it. */
export class RpcWebSocket extends WebSocket {
  /** Set once; sends that response. */
  connection: WsConnection | undefined

  override close(code?: number, reason?: string | Buffer): void {
    const { connection } = this
    const response = code === 1009 ? messageTooLarge : code === 1007 ? invalidUtf8 : undefined
    if (code === undefined || response === undefined || connection === undefined) return super.close(code, reason)
    this.connection = undefined
    connection.sendResponse(response)
    connection.close(code, '')
  }
}

const messageTooLarge = failureResponse(refuse('bodyTooLarge'))
const invalidUtf8 = failureResponse(refuse('parse'))

const malformedHandshake = (problem: string): RpcResponse =>
  failureResponse(refuse('malformed', { message: `the WebSocket handshake is malformed: ${problem}` }))
