import type { WebSocket } from 'ws'

/** Pongs that the socket may buffer. */
const maxPendingPongs = 60

/** A caller that sends pings and reads no pongs gets one pong for all pings above the limit (RFC 6455, 5.5.3). */
export class PongSender {
  readonly #socket: WebSocket
  #pendingPongCount = 0
  /** The payload of the latest ping that waits for its pong. */
  #latestPing: Buffer | undefined

  constructor(socket: WebSocket) {
    this.#socket = socket
  }

  send(payload: Buffer): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    if (this.#pendingPongCount >= maxPendingPongs) {
      this.#latestPing = payload
      return
    }
    this.#pendingPongCount += 1
    this.#socket.pong(payload, false, () => {
      this.#pendingPongCount -= 1
      const latestPing = this.#latestPing
      this.#latestPing = undefined
      if (latestPing !== undefined) this.send(latestPing)
    })
  }
}
