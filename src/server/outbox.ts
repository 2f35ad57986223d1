import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { bodyText } from '../wire/write.ts'
import type { Body } from '../wire/write.ts'
import type { Doors } from './door.ts'
import { cutFrames, textFrame } from './frames.ts'
import type { Frame } from './frames.ts'

/** Up to here an answer is one frame, written as one text. What is longer counts for the room of all callers. */
const short = 16_384
/** Bytes that the socket may hold; while it holds more, answers wait here. */
const full = 262_144
/** Bytes that wait for a caller. Past `slow` it is given up when it reads nothing for a while; past `most` nothing long is taken. */
const slow = 8 << 20
const most = 40 << 20
/** Answers that were not taken since the caller last read; past it the caller is given up at once. */
const mostRefused = 10

/** Answers that wait for a caller, however short; past it the socket is read no further for a while. */
const many = 200
/** Frames that are sent in one go, while the system takes them at once. */
const turn = 8

/** What an outbox needs of its surroundings. */
export interface Post extends Pick<Doors, 'room' | 'traffic' | 'tidy'> {
  /** How long a caller for whom too much waits may read nothing, in ms of the system's clock. */
  readonly patience: number
  /** Called when the caller has read, and what waits has become less. */
  onRead(): void
  /** Ends a socket whose caller does not read. */
  giveUp(): void
}

/**
 * What leaves through one WebSocket, in order of sending. Short answers go to the socket at once. A long one goes there
 * frame by frame, as its caller reads; what comes after it waits behind it.
 */
export class Outbox {
  readonly #socket: WebSocket
  readonly #stream: Socket
  readonly #post: Post
  readonly #queue: Body[] = []
  /** What is left of the first in the queue, once that has been begun; in order from the end. */
  #frames: Frame[] | undefined
  #rest = 0
  /** Bytes of all others in the queue. */
  #behind = 0
  /** Answers that have taken room of all callers, until they have left. */
  readonly #held = new Set<Body>()
  #drains = 0
  #refused = 0
  #timer: NodeJS.Timeout | undefined
  #last: { readonly code: number; readonly reason: string } | undefined

  /** `stream` is what `socket` writes to. */
  constructor(socket: WebSocket, stream: Socket, post: Post) {
    this.#socket = socket
    this.#stream = stream
    this.#post = post
    stream.on('drain', () => this.#drain())
    socket.on('close', () => {
      this.#queue.length = this.#rest = this.#behind = 0
      this.#time()
      for (const body of this.#held) this.#release(body)
    })
  }

  /** Does so much wait behind the answer under way that the caller should ask no more? */
  get isCrowded(): boolean {
    return this.#behind > slow || this.#queue.length >= many
  }

  /** False, and nothing is sent, when too much waits for this caller, or for all callers; short ones always find room. */
  send(body: Body): boolean {
    if (body.length <= short && this.#queue.length === 0 && this.#stream.writableLength < full) {
      this.#stream.write(textFrame(bodyText(body)), 'latin1')
      return true
    }
    return this.#last !== undefined || this.#sendLater(body)
  }

  /** Closes the socket once all that waits has left. Nothing is sent after it. */
  close(code: number, reason: string): void {
    this.#last ??= { code, reason }
    if (this.#queue.length === 0) this.#socket.close(code, reason)
    else this.#time()
  }

  #sendLater(body: Body): boolean {
    if (body.length > short && !(this.#hasRoom(body) && this.#hold(body))) return false
    this.#behind += body.length
    if (this.#queue.push(body) === 1) this.#write()
    this.#time()
    return true
  }

  #hasRoom({ length }: Body): boolean {
    const waiting = this.#rest + this.#behind
    if (waiting <= slow || waiting + length <= most) return true
    this.#refused += 1
    if (this.#refused > mostRefused) this.#post.giveUp()
    return false
  }

  /** A caller who reads as fast as this writes would keep all others waiting; each `turn` frames they get their turn. */
  #drain(): void {
    this.#timer?.refresh()
    this.#refused = 0
    this.#drains += 1
    if (this.#drains % turn === 0) setImmediate(() => this.#goOn())
    else this.#goOn()
  }

  #goOn(): void {
    this.#write()
    this.#time()
    this.#post.onRead()
  }

  /** Until the socket holds enough. */
  #write(): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    this.#stream.cork()
    while (this.#queue.length > 0 && !this.#stream.writableNeedDrain) this.#writeNext(this.#queue[0]!)
    this.#stream.uncork()
    if (this.#queue.length === 0 && this.#last !== undefined) this.close(this.#last.code, this.#last.reason)
  }

  #writeNext(body: Body): void {
    if (this.#frames === undefined) this.#behind -= body.length
    if (body.length <= short) {
      this.#queue.shift()
      this.#stream.write(textFrame(bodyText(body)), 'latin1')
      return
    }
    this.#frames ??= this.#begin(body)
    const { head, payload } = this.#frames.pop()!
    this.#rest -= payload.length
    this.#stream.write(head)
    if (this.#frames.length > 0) return void this.#stream.write(payload)
    this.#frames = undefined
    this.#queue.shift()
    // Until then a part of it holds the memory of the whole.
    this.#stream.write(payload, () => this.#release(body))
  }

  #begin(body: Body): Frame[] {
    this.#rest = body.length
    return cutFrames(body).toReversed()
  }

  /** Whoever lets much wait, or is about to be closed, has to read on. */
  #time(): void {
    const limit = this.#last === undefined ? slow : 0
    if (this.#rest + this.#behind > limit) {
      this.#timer ??= setTimeout(() => this.#post.giveUp(), this.#post.patience)
    } else {
      clearTimeout(this.#timer)
      this.#timer = undefined
    }
  }

  #hold(body: Body): boolean {
    const { room, traffic } = this.#post
    if (!room.take(body.length)) return false
    traffic.enter()
    this.#held.add(body)
    return true
  }

  #release(body: Body): void {
    const { room, traffic, tidy } = this.#post
    if (!this.#held.delete(body)) return
    room.give(body.length)
    tidy(body.length)
    traffic.leave()
  }
}
