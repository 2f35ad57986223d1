import type { IncomingHttpHeaders } from 'node:http'
import type { WebSocket } from 'ws'

interface WebSocketOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** From the start of the connection to the end of the upgrade. */
  readonly handshakeTimeoutMs: number
  /** Most bytes of a message; a longer one closes the connection. */
  readonly maxPayloadBytes: number
  onOpen(): void
  onMessage(data: Buffer): void
  onPong(): void
  /** Without an error where the node has closed the connection. */
  onLoss(error?: Error): void
  /** The node answered the upgrade with an HTTP response; without this handler that is a loss. */
  onRefused?(status: number, headers: IncomingHttpHeaders): void
}

/** A WebSocket to a node. */
export interface UpstreamSocket {
  send(text: string): void
  ping(): void
  /** Ends the connection at once. Its handlers are not called any more. */
  drop(): void
}

/**
 * Opens a WebSocket to a node: without compression, and following no redirect. Undefined for an invalid URL, such as one with a
 * fragment: the error of `ws` would contain the URL. `ws` is loaded by the caller, with the first connection.
 */
export const openWebSocket = (
  Socket: typeof WebSocket,
  url: string,
  { headers, handshakeTimeoutMs, maxPayloadBytes, onRefused, ...handlers }: WebSocketOptions,
): UpstreamSocket | undefined => {
  let socket: WebSocket
  try {
    socket = new Socket(url, {
      perMessageDeflate: false,
      followRedirects: false,
      maxPayload: maxPayloadBytes,
      handshakeTimeout: handshakeTimeoutMs,
      ...(headers && { headers }),
    })
  } catch {
    return undefined
  }
  let isDropped = false
  const unlessDropped =
    <Args extends unknown[]>(handle: (...args: Args) => void) =>
    (...args: Args): void => {
      if (!isDropped) handle(...args)
    }
  socket.on('open', unlessDropped(handlers.onOpen))
  socket.on('message', unlessDropped(handlers.onMessage as (data: unknown) => void)) // ws gives Buffers by default
  socket.on('pong', unlessDropped(handlers.onPong))
  socket.on('error', unlessDropped(handlers.onLoss))
  const onClose = () => handlers.onLoss()
  socket.on('close', unlessDropped(onClose))
  if (onRefused !== undefined) {
    const refuse = unlessDropped(onRefused)
    socket.on('unexpected-response', (request, { statusCode = 0, headers: found }) => {
      request.destroy()
      refuse(statusCode, found)
    })
  }
  return {
    send: text => socket.send(text),
    ping: () => socket.ping(),
    drop() {
      isDropped = true
      socket.terminate()
    },
  }
}
