import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { refuse } from '../reply.ts'
import type { Failure } from '../reply.ts'
import { failWhole } from '../wire/answer.ts'
import { refuseBare } from './bare.ts'
import type { Conversation } from './conversation.ts'
import type { Doors } from './door.ts'

/** Answers a request that asks for a WebSocket: `open` is called with it, unless the handshake is refused. */
export type Handshake = (request: IncomingMessage, stream: Duplex, head: Buffer, open: (socket: Socket) => void) => void

export const openHandshake = (doors: Pick<Doors, 'limits' | 'answered'>): Handshake => {
  const server = new WebSocketServer<typeof Socket>({
    noServer: true,
    maxPayload: doors.limits.frame,
    perMessageDeflate: false,
    clientTracking: false,
    WebSocket: Socket,
  })
  server.on('wsClientError', ({ message }, stream) =>
    refuseBare(doors, stream, malformed(message), { more: ['Sec-WebSocket-Version', '13'] }),
  )
  return (request, stream, head, open) => server.handleUpgrade(request, stream, head, open)
}

/** A message over the limit, or text that is not UTF-8, is answered before the close that ws has for it. */
export class Socket extends WebSocket {
  /** Has the last word, once. */
  conversation: Conversation | undefined

  override close(code?: number, reason?: string | Buffer): void {
    const { conversation } = this
    const word = code === 1009 ? tooLarge : code === 1007 ? notText : undefined
    if (code === undefined || word === undefined || conversation === undefined) return super.close(code, reason)
    this.conversation = undefined
    conversation.deliver(word)
    conversation.close(code, '')
  }
}

const tooLarge = failWhole(refuse('bodyTooLarge'))
const notText = failWhole(refuse('parse'))

const malformed = (what: string): Failure => refuse('malformed', { message: `the WebSocket handshake is malformed: ${what}` })
