import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { isFailure } from '../reply.ts'
import type { Reply } from '../reply.ts'
import type { Log } from '../services/log.ts'
import { noRoom } from '../services/agents/room.ts'
import { answer, failWhole } from '../wire/answer.ts'
import type { Answer } from '../wire/answer.ts'
import type { Body } from '../wire/write.ts'
import type { Doors, Traffic, Visit } from './door.ts'
import { Outbox } from './outbox.ts'
import { refundAll } from './refund.ts'

/** Messages of one socket that are answered at the same time; past it the socket is read no further for a while. */
const mostAtOnce = 200

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
  readonly #stream: Socket
  readonly #outbox: Outbox
  #running = 0
  #isGathering = false
  #isEnding = false
  #missed = 0

  /** `stream` is what `socket` writes to. */
  constructor(socket: WebSocket, stream: Socket, visit: Visit, { traffic, log, room, tidy, patience = 5_000 }: Around) {
    this.#socket = socket
    this.#stream = stream
    this.#outbox = new Outbox(socket, stream, {
      room,
      traffic,
      tidy,
      patience,
      onRead: () => this.#goOn(),
      giveUp: () => this.#giveUp(),
    })
    this.visit = visit
    this.#traffic = traffic
    this.#log = log
    socket.on('pong', () => {
      this.#missed = 0
    })
    socket.on('error', () => undefined) // a frame that breaks the protocol; ws closes the socket with the fitting code
    socket.on('message', (data: Buffer) => void this.#take(data))
    socket.on('close', () => visit.caller.leave())
  }

  /** Two pings without a pong end it, also where it is being closed. */
  ping(): void {
    if (this.#missed === 2) return this.#socket.terminate()
    this.#missed += 1
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping()
  }

  /** A key that is no longer good ends it. */
  deliver({ id, body, replies }: Answer): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    if (body !== undefined && !this.#send(body)) this.#refuse(id, replies)
    if (replies.some(reply => isFailure(reply) && reply.kind === 'key')) {
      this.close(1008, 'the API key is not valid any more')
    }
  }

  /** The gateway goes away: what is being answered is answered first, what comes in from now on is not taken any more. */
  end(): void {
    this.#isEnding = true
    if (this.#running === 0) this.close()
  }

  /** After what waits for the caller; nothing that comes in is taken any more. */
  close(code = 1001, reason = 'the gateway is stopping'): void {
    this.#isEnding = true
    this.#outbox.close(code, reason)
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

  #send(body: Body): boolean {
    if (this.#running > 0) this.#gather()
    return this.#outbox.send(body)
  }

  /** Too much waits to be read. Who called one thing is told; a batch has no id by which the caller would know what failed. */
  #refuse(id: string, replies: readonly Reply[]): void {
    refundAll({ log: this.#log }, replies, 'unavailable')
    const { body } = failWhole(noRoom(), id)
    if (id === 'null') this.close(1013, 'too many answers wait to be read')
    else if (body !== undefined && this.#socket.readyState === this.#socket.OPEN) this.#send(body)
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

  #giveUp(): void {
    const { requestId, network } = this.visit.caller
    this.#log.info({ event: 'slow-caller', requestId, network }, 'a caller does not read its answers: the socket is closed')
    this.terminate()
  }

  /** Who reads lives, though its pong may be a long way behind. */
  #goOn(): void {
    this.#missed = 0
    this.#pace()
  }

  /** Reads on only while there is room for more answers. */
  #pace(): void {
    if (this.#running >= mostAtOnce || this.#outbox.isCrowded) this.#socket.pause()
    else if (this.#socket.isPaused) this.#socket.resume()
  }
}
