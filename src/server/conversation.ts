import type { Socket } from 'node:net'
import { WebSocket } from 'ws'
import { isFailure } from '../reply.ts'
import type { Reply } from '../reply.ts'
import type { Room } from '../services/agents/room.ts'
import type { Log } from '../services/log.ts'
import { answer } from '../wire/answer.ts'
import type { Answer } from '../wire/answer.ts'
import { bodyText } from '../wire/write.ts'
import type { Body } from '../wire/write.ts'
import type { Doors, Traffic, Visit } from './door.ts'
import { sendBody, textFrame } from './frames.ts'

/** Messages of one socket that are answered at the same time; past it the socket is read no further for a while. */
const mostAtOnce = 200
/** Bytes that wait for a caller. Past `slow` it is given up when it reads nothing for a while, past `most` at once. */
const slow = 8 << 20
const most = 40 << 20
/** Up to here an answer is one frame, written as one text. What is longer counts for the room of all callers. */
const short = 16_384

/** What a conversation needs of its surroundings. */
interface Around extends Pick<Doors, 'traffic' | 'log' | 'room' | 'tidy'> {
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
  readonly #tidy: Doors['tidy']
  readonly #stream: Socket
  readonly #patience: number
  #running = 0
  #isGathering = false
  #isEnding = false
  #missed = 0
  #isSlow = false
  /** Bytes that answers take of the room of all callers until they have been read. */
  #held = 0

  /** `stream` is what `socket` writes to. */
  constructor(socket: WebSocket, stream: Socket, visit: Visit, { traffic, log, room, tidy, patience = 5_000 }: Around) {
    this.#socket = socket
    this.#stream = stream
    this.#room = room
    this.#tidy = tidy
    this.#patience = patience
    this.visit = visit
    this.#traffic = traffic
    this.#log = log
    socket.on('pong', () => { this.#missed = 0 })
    socket.on('error', () => undefined) // a frame that breaks the protocol; ws closes the socket with the fitting code
    socket.on('message', (data: Buffer) => void this.#take(data))
    stream.on('timeout', () => this.#giveUp())
    stream.on('drain', () => this.#pace())
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

  /** The gateway goes away: what is being answered is answered first, what comes in from now on is not taken any more. */
  end(): void {
    this.#isEnding = true
    if (this.#running === 0) this.close()
  }

  close(): void {
    this.#socket.close(1001, 'the gateway is stopping')
  }

  terminate(): void {
    this.#socket.terminate()
  }

  async #take(message: Buffer): Promise<void> {
    if (this.#isEnding) return
    this.#traffic.enter()
    this.#running += 1
    if (this.#running >= mostAtOnce) this.#socket.pause()
    const { network, caller } = this.visit
    const told = await answer(network.door, message, caller)
    this.#running -= 1
    this.deliver(told)
    if (this.#isEnding) this.end()
    this.#pace()
    this.#traffic.leave()
  }

  #send(body: Body, replies: readonly Reply[]): void {
    const waiting = this.#socket.bufferedAmount
    if (waiting > slow && waiting + body.length > most) return this.#giveUp()
    if (this.#running > 0) this.#gather()
    if (body.length <= short) this.#stream.write(textFrame(bodyText(body)), 'latin1')
    else this.#sendLong(body, replies)
  }

  #sendLong(body: Body, replies: readonly Reply[]): void {
    if (!this.#room.take(body.length)) {
      for (const reply of replies) reply.charge?.refund()
      return this.#socket.close(1013, 'too many answers wait to be read')
    }
    this.#held += body.length
    sendBody(this.#socket, body, () => {
      this.#release(body.length)
      this.#tidy(body.length)
      this.#pace()
    })
    this.#pace()
  }

  /** More answers follow: those of one turn go out in one write. With 32 calls in flight on a socket that saves a third of the CPU. */
  #gather(): void {
    if (this.#isGathering) return
    this.#isGathering = true
    this.#stream.cork()
    process.nextTick(() => {
      this.#isGathering = false
      this.#stream.uncork()
    })
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
