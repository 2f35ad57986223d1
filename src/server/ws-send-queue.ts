import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { bodyToLatin1, releaseBody } from '../json-rpc/serialize-response.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import { sentBytesOf } from '../runtime/http-internals.ts'
import type { Timer } from '../services/clock.ts'
import type { CallerMemory } from '../services/memory-budget.ts'
import { watchReadSpeed } from './read-speed.ts'
import { closeStatusOf, encodeTextFrame, splitIntoFrames } from './ws-frames.ts'
import type { CloseStatus, Frame } from './ws-frames.ts'
import { WsResponseMemory } from './ws-memory.ts'
import type { WsResponseMemoryServices } from './ws-memory.ts'
import type { RpcServices } from './rpc-services.ts'

/** A response up to this length is one frame, written as one text. */
const maxSingleFrameBytes = 16_384
/** Bytes that a short response in the socket takes besides its own. */
const responseOverheadBytes = 512
/** Bytes that the socket may buffer; while it buffers more, responses are queued here. */
const maxSocketBufferBytes = 262_144
/** Queued bytes above which a caller that reads nothing for the send timeout is disconnected. */
const slowReaderBytes = 8 << 20
/** Queued bytes above which no further long response is queued. */
const maxQueuedBytes = 40 << 20
/** Long responses that were not queued since the caller last read; past this number the caller is disconnected at once. */
const maxRefusedResponses = 10

/** Queued responses, however short; at this number reading from the WebSocket pauses. */
const maxQueuedResponses = 200
/** Frames that are sent in one turn, while the system takes them at once. */
const framesPerTurn = 8

/** Called once: has the system taken the whole response? */
export type OnSettled = (isDelivered: boolean) => void

/** The services that a send queue uses. `sendTimeoutMs`: how long a caller with too many queued bytes may read less than the least speed. */
type WsSendQueueServices = WsResponseMemoryServices & Pick<RpcServices, 'clock' | 'sendTimeoutMs'>

export interface WsSendQueueUser {
  readonly memory: CallerMemory
  /** The caller has read, and fewer bytes are queued. */
  onRead(): void
  /** The caller does not read: its WebSocket is to be terminated. */
  onSlowReader(): void
}

const defaultSendTimeoutMs = 5_000

/**
 * The responses of one WebSocket, in order of sending. A short response is written to the socket at once. A long one is written
 * frame by frame, as its caller reads; later responses are queued behind it.
 */
export class WsSendQueue {
  readonly #socket: WebSocket
  readonly #stream: Socket
  readonly #user: WsSendQueueUser
  readonly #services: WsSendQueueServices
  readonly #queue: ResponseBody[] = []
  /** Frames that remain of the first response in the queue, once it has been begun; in order from the end. */
  #remainingFrames: Frame[] | undefined
  #remainingBytes = 0
  /** Bytes of all other responses in the queue. */
  #queuedBytes = 0
  /** Made with the first response that is reserved, as the next one with the first that is waited for: most WebSockets have neither. */
  #responseMemory: WsResponseMemory | undefined
  /** Reserved bytes of short responses that the socket holds, as the caller does not read them at once. */
  #socketBytes = 0
  /** Since the caller last read, the memory budget had no room for a response. */
  #isOverloaded = false
  #drainCount = 0
  #refusedCount = 0
  #readSpeedTimer: Timer | undefined
  #pendingClose: CloseStatus | undefined
  /** Of responses whose outcome somebody waits for, until the system has taken them. */
  #unsettled: Map<ResponseBody, OnSettled> | undefined

  /** `stream` is what `socket` writes to. */
  constructor(socket: WebSocket, stream: Socket, user: WsSendQueueUser, services: WsSendQueueServices) {
    this.#socket = socket
    this.#stream = stream
    this.#user = user
    this.#services = services
    stream.on('drain', () => this.#onDrain())
  }

  /** Are so many bytes or responses queued behind the current one that no more calls should be read? */
  get needsDrain(): boolean {
    return this.#isOverloaded || this.#queuedBytes > slowReaderBytes || this.#queue.length >= maxQueuedResponses
  }

  /** Is the response short, and does none before it wait for the caller to read? */
  isTakenAtOnce({ byteLength }: ResponseBody): boolean {
    return byteLength <= maxSingleFrameBytes && this.#queue.length === 0 && !this.#stream.writableNeedDrain
  }

  /** False, and nothing is sent, when too many bytes are queued for this caller or for all callers: then `settle` is not called. */
  send(body: ResponseBody, settle?: OnSettled): boolean {
    if (body.byteLength <= maxSingleFrameBytes && this.#queue.length === 0 && this.#stream.writableLength < maxSocketBufferBytes) {
      if (this.#stream.writableNeedDrain && !this.#reserveSocketBytes(body)) return false
      this.#awaitSettling(body, settle)
      this.#stream.write(encodeTextFrame(bodyToLatin1(body)), 'latin1', settle && (error => this.#settle(body, error)))
      return true
    }
    if (this.#pendingClose === undefined && this.#enqueue(body, settle)) return true
    releaseBody(body)
    if (this.#pendingClose !== undefined) settle?.(false)
    return this.#pendingClose !== undefined
  }

  /** Sends the short error in place of a response that was not accepted. While the caller does not read it, no further calls are read. */
  sendRefusal(body: ResponseBody): void {
    if (this.#queue.length === 0) this.#stream.write(encodeTextFrame(bodyToLatin1(body)), 'latin1')
    else if (this.#pendingClose === undefined) this.#push(body)
    this.#isOverloaded = this.#stream.writableNeedDrain
  }

  /** Closes the WebSocket once all queued responses are sent. Nothing is sent after it. Throws RangeError for a code that no close frame may have. */
  close(code: number, reason: string): void {
    this.#pendingClose ??= closeStatusOf(code, reason)
    if (this.#queue.length === 0) this.#socket.close(this.#pendingClose.code, this.#pendingClose.reason)
    else this.#updateReadSpeedTimer()
  }

  /** Drops all queued responses: nothing more is sent. */
  discard(): void {
    for (const settle of this.#unsettled?.values() ?? []) settle(false)
    this.#unsettled = undefined
    this.#queue.length = this.#remainingBytes = this.#queuedBytes = 0
    this.#updateReadSpeedTimer()
    this.#responseMemory?.discard()
    this.#releaseSocketBytes()
  }

  /** The WebSocket is closed. */
  onClosed(): void {
    this.discard()
    this.#responseMemory?.onClosed()
  }

  #enqueue(body: ResponseBody, settle: OnSettled | undefined): boolean {
    if (!(this.#fitsQueue(body) && this.#reserve(body))) return false
    this.#awaitSettling(body, settle)
    this.#push(body)
    return true
  }

  #awaitSettling(body: ResponseBody, settle: OnSettled | undefined): void {
    if (settle === undefined) return
    this.#unsettled ??= new Map()
    this.#unsettled.set(body, settle)
  }

  #onWritten(body: ResponseBody, error: Error | null | undefined): void {
    this.#settle(body, error)
    this.#responseMemory?.onWritten(body, error)
  }

  /** Node also calls back, without an error, what it could not write to a connection that has been closed. */
  #settle(body: ResponseBody, error: Error | null | undefined): void {
    const settle = this.#unsettled?.get(body)
    this.#unsettled?.delete(body)
    settle?.(!error && !this.#stream.destroyed)
  }

  #push(body: ResponseBody): void {
    this.#queuedBytes += body.byteLength
    if (this.#queue.push(body) === 1) this.#flush()
    this.#updateReadSpeedTimer()
  }

  #fitsQueue({ byteLength }: ResponseBody): boolean {
    const waitingBytes = this.#remainingBytes + this.#queuedBytes
    if (byteLength <= maxSingleFrameBytes || waitingBytes <= slowReaderBytes || waitingBytes + byteLength <= maxQueuedBytes) return true
    this.#refusedCount += 1
    if (this.#refusedCount > maxRefusedResponses) this.#user.onSlowReader()
    return false
  }

  /** A caller that reads as fast as this writes would block all others; they get a turn each `framesPerTurn` frames. */
  #onDrain(): void {
    this.#refusedCount = 0
    this.#isOverloaded = false
    this.#releaseSocketBytes()
    this.#drainCount += 1
    if (this.#drainCount % framesPerTurn === 0) setImmediate(() => this.#resume())
    else this.#resume()
  }

  #resume(): void {
    this.#flush()
    this.#updateReadSpeedTimer()
    this.#user.onRead()
  }

  /** Writes until the socket's buffer is full. */
  #flush(): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    this.#stream.cork()
    while (this.#queue.length > 0 && !this.#stream.writableNeedDrain) this.#writeFrame(this.#queue[0]!)
    this.#stream.uncork()
    if (this.#queue.length === 0 && this.#pendingClose !== undefined) this.close(this.#pendingClose.code, this.#pendingClose.reason)
  }

  #writeFrame(body: ResponseBody): void {
    if (this.#remainingFrames === undefined) this.#queuedBytes -= body.byteLength
    if (body.byteLength <= maxSingleFrameBytes) {
      this.#queue.shift()
      this.#stream.write(encodeTextFrame(bodyToLatin1(body)), 'latin1', error => this.#onWritten(body, error))
      return
    }
    this.#remainingFrames ??= this.#startFrames(body)
    const { header, payload } = this.#remainingFrames.pop()!
    this.#remainingBytes -= payload.length
    this.#stream.write(header)
    if (this.#remainingFrames.length > 0) return void this.#stream.write(payload)
    this.#remainingFrames = undefined
    this.#queue.shift()
    // Until then a part of the response keeps the memory of the whole.
    this.#stream.write(payload, error => this.#onWritten(body, error))
  }

  #startFrames(body: ResponseBody): Frame[] {
    this.#remainingBytes = body.byteLength
    return splitIntoFrames(body).toReversed()
  }

  /** A caller with many queued bytes, or one that is to be closed, must keep reading. */
  #updateReadSpeedTimer(): void {
    const maxBytes = this.#pendingClose === undefined ? slowReaderBytes : 0
    if (this.#remainingBytes + this.#queuedBytes > maxBytes) this.#readSpeedTimer ??= this.#watchReadSpeed()
    else {
      this.#readSpeedTimer?.cancel()
      this.#readSpeedTimer = undefined
    }
  }

  #watchReadSpeed(): Timer {
    const { clock, sendTimeoutMs = defaultSendTimeoutMs } = this.#services
    const onSlow = () => this.#user.onSlowReader()
    return watchReadSpeed({ clock, sendTimeoutMs, sentBytes: () => sentBytesOf(this.#stream), onSlow })
  }

  #reserve(body: ResponseBody): boolean {
    this.#responseMemory ??= new WsResponseMemory(this.#user.memory, this.#services)
    const isReserved = this.#responseMemory.reserve(body)
    if (!isReserved) this.#isOverloaded = this.#stream.writableNeedDrain
    return isReserved
  }

  #reserveSocketBytes({ byteLength }: ResponseBody): boolean {
    const bytes = byteLength + responseOverheadBytes
    if (!this.#user.memory.reserve(bytes)) {
      this.#isOverloaded = true
      return false
    }
    this.#socketBytes += bytes
    return true
  }

  #releaseSocketBytes(): void {
    this.#user.memory.release(this.#socketBytes)
    this.#socketBytes = 0
  }
}
