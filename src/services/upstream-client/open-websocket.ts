import type { WebSocket } from 'ws'

interface WebSocketOptions {
  readonly headers?: Readonly<Record<string, string>>
  /** From the start of the connection to the end of the upgrade. */
  readonly handshakeTimeoutMs: number
  /** Most bytes of a message; a longer one closes the connection. */
  readonly maxPayloadBytes: number
}

/**
 * Opens a WebSocket to a node: without compression, and following no redirect. Undefined for an invalid URL, such as one with a
 * fragment: the error of `ws` would contain the URL. `ws` is loaded by the caller, with the first connection.
 */
export const openWebSocket = (
  Socket: typeof WebSocket,
  url: string,
  { headers, handshakeTimeoutMs, maxPayloadBytes }: WebSocketOptions,
): WebSocket | undefined => {
  try {
    return new Socket(url, {
      perMessageDeflate: false,
      followRedirects: false,
      maxPayload: maxPayloadBytes,
      handshakeTimeout: handshakeTimeoutMs,
      ...(headers && { headers }),
    })
  } catch {
    return undefined
  }
}
