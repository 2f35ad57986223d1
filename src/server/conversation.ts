import type { Socket } from 'node:net'
import { WebSocket } from 'ws'
import { isFailure } from '../reply.ts'
import type { Reply } from '../reply.ts'
import type { Room } from '../services/agents/room.ts'
import type { Log } from '../services/log.ts'
import { answer } from '../wire/answer.ts'
import type { Answer } from '../wire/answer.ts'
import { joinBody } from '../wire/write.ts'
import type { Body } from '../wire/write.ts'
import type { Doors, Traffic, Visit } from './door.ts'

/** Messages of one socket that are answered at the same time; past it the socket is read no further for a while. */
const mostAtOnce = 200
/** Bytes that wait for a caller. Past `slow` it is given up when it reads nothing for a while, past `most` at once. */
const slow = 8 << 20
const most = 40 << 20
/** Up to here a message goes out in one frame; a longer one in frames of its pieces, so that it need not be copied. */
const short = 65_536

/** What a conversation needs of its surroundings. */
interface Around extends Pick<Doors, 'traffic' | 'log' | 'room'> {
  /** In ms; as it is about a socket, the system's clock counts it. */
  readonly patience?: number
}

/** One open WebSocket: messages in, answers out, as text whatever came in. */
export class Conversation {
  readonly visit: Visit
  readonly #socket: WebSocket
  readonly #traffic: Traffic
  readonly #log: Log
  readonly #room: Room
  readonly #stream: Socket
  readonly #patience: number
  #running = 0
  #missed = 0
  #isSlow = false
  /** Bytes that answers take of the room of all callers until they have been read. */
  #held = 0

  /** `stream` is what `socket` writes to. */
  constructor(socket: WebSocket, stream: Socket, visit: Visit, { traffic, log, room, patience = 5_000 }: Around) {
    this.#socket = socket
    this.#stream = stream
    this.#room = room
    this.#patience = patience
    this.visit = visit
    this.#traffic = traffic
    this.#log = log
    socket.on('pong', () => { this.#missed = 0 })
    socket.on('error', () => undefined) // a frame that breaks the protocol; ws closes the socket with the fitting code
    socket.on('message', (data: Buffer) => void this.#take(data))
    stream.on('timeout', () => this.#giveUp())
    socket.on('close', () => {
      this.#release(this.#held)
      visit.caller.leave()
    })
  }

  /** Two pings without a pong end it. */
  ping(): void {
    if (this.#missed === 2) return this.#socket.terminate()
    if (this.#socket.readyState !== WebSocket.OPEN) return
    this.#missed += 1
    this.#socket.ping()
  }

  /** A key that is no longer good ends it. */
  deliver({ body, replies }: Answer): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return
    if (body !== undefined) this.#send(body, replies)
    if (replies.some(reply => isFailure(reply) && reply.kind === 'key')) {
      this.#socket.close(1008, 'the API key is not valid any more')
    }
  }

  close(code: number, reason: string): void {
    this.#socket.close(code, reason)
  }

  terminate(): void {
    this.#socket.terminate()
  }

  async #take(message: Buffer): Promise<void> {
    this.#traffic.enter()
    this.#running += 1
    this.#pace()
    const { network, caller } = this.visit
    const told = await answer(network.door, message, caller)
    this.#running -= 1
    this.deliver(told)
    this.#pace()
    this.#traffic.leave()
  }

  #send(body: Body, replies: readonly Reply[]): void {
    if (this.#socket.bufferedAmount + body.length > most && this.#socket.bufferedAmount > slow) return this.#giveUp()
    const held = body.length > short ? body.length : 0
    if (!this.#room.take(held)) {
      for (const reply of replies) reply.charge?.refund()
      return this.#socket.close(1013, 'too many answers wait to be read')
    }
    this.#held += held
    sendBody(this.#socket, body, () => {
      this.#release(held)
      this.#pace()
    })
    this.#pace()
  }

  /** Nothing is left of it once the socket has closed. */
  #release(held: number): void {
    const bytes = Math.min(held, this.#held)
    this.#held -= bytes
    this.#room.give(bytes)
  }

  #giveUp(): void {
    const { requestId, network } = this.visit.caller
    this.#log.info({ event: 'slow-caller', requestId, network }, 'a caller does not read its answers: the socket is closed')
    this.terminate()
  }

  /** Reads on only while there is room for more answers. The system notices of a long one, too, when a part was read. */
  #pace(): void {
    const isSlow = this.#socket.bufferedAmount > slow
    if (isSlow !== this.#isSlow) this.#stream.setTimeout(isSlow ? this.#patience : 0)
    this.#isSlow = isSlow
    if (isSlow || this.#running >= mostAtOnce) this.#socket.pause()
    else if (this.#socket.isPaused) this.#socket.resume()
  }
}

/** Sends text in one frame or in several; `sent` is called when the last has left for the kernel. */
export const sendBody = (socket: WebSocket, body: Body, sent?: () => void): void => {
  if (body.length <= short) return socket.send(joinBody(body), { binary: false }, sent)
  const last = body.pieces.length - 1
  body.pieces.forEach((piece, i) => {
    const bytes = typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece
    socket.send(bytes, { binary: false, fin: i === last }, i === last ? sent : undefined)
  })
}
