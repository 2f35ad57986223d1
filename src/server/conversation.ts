import type { Duplex } from 'node:stream'
import { WebSocket } from 'ws'
import { isFailure } from '../reply.ts'
import type { Clock, Timer } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { answer } from '../wire/answer.ts'
import type { Answer } from '../wire/answer.ts'
import { joinBody } from '../wire/write.ts'
import type { Body } from '../wire/write.ts'
import type { Doors, Traffic, Visit } from './door.ts'

/** Messages of one socket that are answered at the same time; past it the socket is read no further for a while. */
const mostAtOnce = 200
/** Bytes that wait for a caller who reads slowly. Past `slow` it has `patience` ms to catch up, past `most` none. */
const slow = 8 << 20
const most = 40 << 20
const patience = 5_000
/** Up to here a message goes out in one frame; a longer one in frames of its pieces, so that it need not be copied. */
const short = 65_536

interface Around {
  readonly doors: Pick<Doors, 'traffic' | 'log' | 'tidy'>
  readonly clock: Clock
}

/** One open WebSocket: messages in, answers out, as text whatever came in. */
export class Conversation {
  readonly visit: Visit
  readonly #socket: WebSocket
  readonly #traffic: Traffic
  readonly #log: Log
  readonly #tidy: Doors['tidy']
  readonly #clock: Clock
  readonly #stream: Duplex
  #isGathering = false
  #running = 0
  #isEnding = false
  #missed = 0
  #deadline: Timer | undefined

  /** `stream` is what `socket` writes to. */
  constructor(socket: WebSocket, stream: Duplex, visit: Visit, { doors: { traffic, log, tidy }, clock }: Around) {
    this.#socket = socket
    this.#stream = stream
    this.visit = visit
    this.#traffic = traffic
    this.#log = log
    this.#tidy = tidy
    this.#clock = clock
    socket.on('pong', () => { this.#missed = 0 })
    socket.on('error', () => undefined) // a frame that breaks the protocol; ws closes the socket with the fitting code
    socket.on('message', (data: Buffer) => void this.#take(data))
    socket.on('close', () => {
      this.#deadline?.cancel()
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
    if (body !== undefined) this.#send(body)
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
    this.#pace()
    const { network, caller } = this.visit
    const told = await answer(network.door, message, caller)
    this.#running -= 1
    this.deliver(told)
    if (this.#isEnding) this.end()
    this.#pace()
    this.#traffic.leave()
  }

  #send(body: Body): void {
    if (this.#socket.bufferedAmount + body.length > most && this.#socket.bufferedAmount > slow) return this.#giveUp()
    if (this.#running > 0) this.#gather()
    sendBody(this.#socket, body, () => {
      if (body.length > short) this.#tidy(body.length)
      this.#pace()
    })
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

  /** Reads on only while there is room for more answers, and gives up on a caller who does not read them. */
  #pace(): void {
    const isSlow = this.#socket.bufferedAmount > slow
    if (isSlow) this.#deadline ??= this.#clock.after(patience, () => this.#giveUp())
    else {
      this.#deadline?.cancel()
      this.#deadline = undefined
    }
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
