import { WebSocket } from 'ws'

/** The gateway stops, and its calls in flight have been answered. */
const goingAway = 1001

/** A gateway that is stopping may be asked again until its proxy has noticed. */
const maxAttempts = 20

/** One caller on a WebSocket. Where it is closed before an answer, the caller connects again and sends the call again. */
export class WebSocketCaller {
  /** WebSockets that closed otherwise than by a gateway that stops. */
  brokenCount = 0
  reconnectCount = 0
  readonly #urlOf: () => string | undefined
  #socket: WebSocket | undefined
  #isClosing = false

  constructor(urlOf: () => string | undefined) {
    this.#urlOf = urlOf
  }

  /** Rejects where no WebSocket can be opened, or too many close. */
  async request(body: string): Promise<string> {
    for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
      this.#socket ??= await this.#open()
      const answer = await this.#send(this.#socket, body)
      if (answer !== undefined) return answer
    }
    throw new Error('the WebSocket closes again and again')
  }

  close(): void {
    this.#isClosing = true
    this.#socket?.close()
  }

  #open(): Promise<WebSocket> {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket((this.#urlOf() ?? '').replace('http', 'ws'), { perMessageDeflate: false })
      socket.once('error', reject)
      socket.once('open', () => {
        socket.off('error', reject).on('error', () => undefined) // a close follows it
        socket.once('close', code => {
          this.#socket = undefined
          if (this.#isClosing) return
          this.reconnectCount += 1
          if (code !== goingAway) this.brokenCount += 1
        })
        resolve(socket)
      })
    })
  }

  /** Undefined where the WebSocket closes first. */
  #send(socket: WebSocket, body: string): Promise<string | undefined> {
    return new Promise(resolve => {
      const onMessage = (data: unknown) => settle(String(data))
      const onClose = () => settle(undefined)
      const settle = (answer: string | undefined) => {
        socket.off('message', onMessage).off('close', onClose)
        resolve(answer)
      }
      socket.on('message', onMessage).on('close', onClose)
      // Else it is closing, and its close comes.
      if (socket.readyState === WebSocket.OPEN) socket.send(body)
    })
  }
}
