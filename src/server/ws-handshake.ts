import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { failureResponse } from '../json-rpc/handle-message.ts'
import { sendRawError } from './raw-response.ts'
import type { WsConnection } from './ws-connection.ts'
import type { RpcContext } from './rpc-context.ts'

/** Answers a request that asks for a WebSocket: `open` is called with it, unless the handshake is refused. */
export type AcceptUpgrade = (request: IncomingMessage, stream: Duplex, head: Buffer, open: (socket: RpcWebSocket) => void) => void

export const createUpgradeHandler = (rpcContext: Pick<RpcContext, 'limits' | 'countResponse'>): AcceptUpgrade => {
  const server = new WebSocketServer<typeof RpcWebSocket>({
    noServer: true,
    maxPayload: rpcContext.limits.frame,
    perMessageDeflate: false,
    clientTracking: false,
    WebSocket: RpcWebSocket,
  })
  server.on('wsClientError', ({ message }, stream) =>
    sendRawError(rpcContext, stream, malformedHandshake(message), { more: ['Sec-WebSocket-Version', '13'] }),
  )
  return (request, stream, head, open) => server.handleUpgrade(request, stream, head, open)
}

/** A message over the limit, or text that is not UTF-8, is answered before the close that ws has for it. */
export class RpcWebSocket extends WebSocket {
  /** Has the last word, once. */
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

const malformedHandshake = (what: string): Failure => refuse('malformed', { message: `the WebSocket handshake is malformed: ${what}` })
