import { isUtf8 } from 'node:buffer'
import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { isFailure, refuse } from '../plugin/reply.ts'
import type { Reply } from '../plugin/reply.ts'
import type { Push } from '../plugin/call.ts'
import type { AccessLog } from '../services/access-log.ts'
import type { Log } from '../services/log.ts'
import { CallerMemory, handlingBytes, overloaded } from '../services/memory-budget.ts'
import { handleMessage, failureResponse, needsSettling, refundReplies } from '../json-rpc/handle-message.ts'
import type { RpcResponse } from '../json-rpc/handle-message.ts'
import { releaseBody } from '../json-rpc/serialize-response.ts'
import type { ResponseBody } from '../json-rpc/serialize-response.ts'
import { unitsOfMessage } from './fair-scheduler.ts'
import type { FairScheduler } from './fair-scheduler.ts'
import { openConnectionOf } from './open-connections.ts'
import type { OpenConnection } from './open-connections.ts'
import { PongSender, TickCork } from './ws-frames.ts'
import type { RoutedRequest } from './request-routing.ts'
import { logResponse } from './response.ts'
import type { ActiveRequests, RpcServices } from './rpc-services.ts'
import { settleResponse } from './stream-response.ts'
import { ArrivingMessage } from './ws-memory.ts'
import { WsSendQueue } from './ws-send-queue.ts'
import type { OnSettled, WsSendQueueUser } from './ws-send-queue.ts'
import { WsTurns } from './ws-turns.ts'
import type { WsTurnsUser } from './ws-turns.ts'

/** Messages of one WebSocket that are handled at the same time; at this number reading from it pauses. */
const maxConcurrentMessages = 200

const invalidUtf8 = failureResponse(refuse('parse'))

/** A longer message is not even parsed when there is no room to handle it: the connection is closed. */
const maxRefusedMessageBytes = 16_384

/** Messages of 0.5 to 2 KB that take as long to find and to send as a call takes to handle. */
const messagesPerUnit = 4

const gatewayStops = 'the gateway is stopping'

const refuseCall = () => Promise.resolve(overloaded())

const ignore = () => undefined

/** What plugins send on a connection: one object for each, and no closures, as there are thousands. */
class ConnectionPush implements Push {
  readonly #connection: WsConnection

  constructor(connection: WsConnection) {
    this.#connection = connection
  }

  send(pieces: readonly (string | Uint8Array)[]): boolean {
    return this.#connection.push(pieces)
  }

  turn(messages: number): Promise<void> | undefined {
    return this.#connection.turnToSend(messages)
  }

  close(code: number, reason: string): void {
    this.#connection.close(code, reason)
  }
}

/** The services that a connection uses. */
type WsConnectionServices = Pick<
  RpcServices,
  'activeRequests' | 'scheduler' | 'clock' | 'log' | 'accessLog' | 'memoryBudget' | 'hintGc' | 'sendTimeoutMs'
>

/** One open WebSocket: receives messages, and sends responses as text frames, also to binary messages. */
export class WsConnection implements WsSendQueueUser, WsTurnsUser {
  readonly routedRequest: RoutedRequest
  readonly #socket: WebSocket
  readonly #activeRequests: ActiveRequests
  readonly #scheduler: FairScheduler
  readonly #turns: WsTurns
  readonly #log: Log
  readonly #accessLog: AccessLog
  readonly #sendQueue: WsSendQueue
  /** Made with the first ping of the caller. */
  #pongs: PongSender | undefined
  readonly #cork: TickCork
  readonly #memory: CallerMemory
  readonly #arrivingMessage: ArrivingMessage
  readonly #open: OpenConnection | undefined
  #inFlightCount = 0
  #isClosing = false
  #drainReason: string | undefined
  #missedPongs = 0

  /** `stream` is what `socket` writes to. */
  constructor(socket: WebSocket, stream: Socket, routedRequest: RoutedRequest, services: WsConnectionServices) {
    const { activeRequests, scheduler, log, accessLog, memoryBudget } = services
    this.#socket = socket
    this.#cork = new TickCork(stream)
    this.#open = openConnectionOf(stream)
    if (this.#open !== undefined) this.#open.user = this
    const { origin } = routedRequest
    this.#memory = new CallerMemory(memoryBudget, origin.state.accountId ?? origin.ip)
    this.#arrivingMessage = new ArrivingMessage(this.#memory)
    this.#sendQueue = new WsSendQueue(socket, stream, this, services)
    this.#scheduler = scheduler
    this.#turns = new WsTurns(this, scheduler)
    this.routedRequest = routedRequest
    origin.push = new ConnectionPush(this)
    this.#activeRequests = activeRequests
    this.#log = log
    this.#accessLog = accessLog
    socket.on('pong', () => {
      this.#missedPongs = 0
      this.#arrivingMessage.release()
      this.#turns.recordSmallFrame()
    })
    socket.on('error', ignore) // a frame that violates the protocol; ws closes the WebSocket with the code for it
    // Before ws: it collects the bytes of a message until that is complete.
    stream.prependListener('data', (chunk: Buffer) => this.#onData(chunk))
    // Before ws, which ends the connection without a close frame.
    stream.prependListener('end', () => this.#inFlightCount === 0 && this.close(1000, ''))
    socket.on('message', (data: Buffer, isBinary: boolean) => void this.#handleMessage(data, isBinary))
    socket.on('ping', (payload: Buffer) => this.#onPing(payload))
    socket.on('close', () => {
      this.abort()
      this.#sendQueue.onClosed()
      this.#arrivingMessage.releaseAll()
    })
  }

  /** What its messages and responses take. */
  get memory(): CallerMemory {
    return this.#memory
  }

  get isAnswering(): boolean {
    return this.#inFlightCount > 0
  }

  /** Two pings without a pong terminate the connection, also while it is being closed. */
  ping(): void {
    if (this.#missedPongs === 2) return this.#socket.terminate()
    this.#missedPongs += 1
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.ping()
  }

  /** An error about the API key closes the connection. */
  sendResponse({ id, body, replies }: RpcResponse): void {
    if (this.#socket.readyState !== this.#socket.OPEN) {
      this.#settle(replies, false)
      return void releaseBody(body)
    }
    if (body !== undefined) {
      const isAwaited = needsSettling(replies) || !this.#sendQueue.isTakenAtOnce(body)
      const settle = isAwaited ? (isTaken: boolean) => this.#settle(replies, isTaken) : undefined
      if (!this.#enqueue(body, settle)) this.#sendOverloaded(id, replies)
    }
    if (replies.some(reply => isFailure(reply) && reply.kind === 'key')) this.close(1008, 'the API key is no longer valid')
  }

  /** Sends a message that is no response; see Push.send(). A caller for which no more messages fit is disconnected: it would miss one. */
  push(pieces: readonly (string | Uint8Array)[]): boolean {
    if (this.#isClosing || this.#socket.readyState !== this.#socket.OPEN) return false
    this.#open?.recordUse()
    this.#cork.untilNextTick()
    const byteLength = pieces.reduce((sum, { length }) => sum + length, 0)
    if (this.#sendQueue.send({ chunks: pieces, byteLength })) return true
    this.close(1013, 'too many messages are waiting to be read')
    return false
  }

  /** See Push.turn(). */
  turnToSend(messages: number): Promise<void> | undefined {
    return this.#scheduler.enterToSend(this.#memory.owner, Math.ceil(messages / messagesPerUnit))
  }

  /** Messages in flight are answered first; messages that arrive from now on are ignored. */
  drain(reason = gatewayStops): void {
    this.#isClosing = true
    this.#drainReason ??= reason
    if (this.#inFlightCount === 0) this.close(1001, this.#drainReason)
  }

  /** Closes once all queued responses are sent; messages that arrive from now on are ignored. */
  close(code = 1001, reason = gatewayStops): void {
    this.#sendQueue.close(code, reason)
    this.#isClosing = true
  }

  /**
   * The caller closes: drops the responses that it has not got yet, and cancels the work for its calls. In its turn, as to cancel a call
   * takes as long as to handle one, and callers may close hundreds of connections at once.
   */
  abort(): void {
    this.#isClosing = true
    this.#sendQueue.discard()
    const { origin } = this.routedRequest
    const turn = this.#turns.enter(this.#inFlightCount)
    if (turn === undefined) origin.abort()
    else void turn.then(() => origin.abort())
  }

  terminate(): void {
    this.#socket.terminate()
  }

  /** At once, as its file is needed: the caller has what is sent here, but does not respond to it. */
  closeForAnother(): void {
    this.#isClosing = true
    this.#socket.close(1013, 'too many connections are open')
    this.terminate()
  }

  #onPing(payload: Buffer): void {
    this.#arrivingMessage.release()
    this.#turns.recordSmallFrame()
    this.#pongs ??= new PongSender(this.#socket)
    this.#pongs.send(Buffer.from(payload)) // a copy, as the payload is a part of what was read
  }

  /** Where what has arrived of a message does not fit the memory budget, nothing can be answered without the rest. */
  #onData(chunk: Buffer): void {
    if (this.#arrivingMessage.push(chunk)) return this.#turns.recordBytes(chunk.length)
    // ws still reports the messages that this chunk completes.
    this.#isClosing = true
    this.#socket.close(1013, 'too many bytes are in flight')
    this.terminate()
  }

  async #handleMessage(message: Buffer, isBinary: boolean): Promise<void> {
    this.#arrivingMessage.release()
    // A chunk brings up to 9,000, and a caller that ignores the close goes on.
    if (this.#isClosing) return this.#turns.recordSmallFrame()
    if (!isBinary && !isUtf8(message)) {
      this.sendResponse(invalidUtf8)
      return this.close(1007, '')
    }
    const receivedAtMs = this.#accessLog.startTimer()
    const reservedBytes = message.length + handlingBytes(message.length)
    if (!this.#memory.reserve(reservedBytes)) return this.#refuseMessage(message)
    this.#activeRequests.begin()
    this.#inFlightCount += 1
    if (this.#inFlightCount >= maxConcurrentMessages) this.#socket.pause()
    const { endpoint, origin } = this.routedRequest
    const turn = this.#scheduler.enter(this.#memory.owner, unitsOfMessage(message.length))
    if (turn !== undefined) await this.#turns.wait(turn)
    // The caller may have left meanwhile.
    const isOpen = turn === undefined || this.#socket.readyState !== this.#socket.CLOSED
    const response = isOpen ? await handleMessage(endpoint.messageHandler, message, origin, this.#memory, this.#scheduler) : undefined
    this.#inFlightCount -= 1
    this.#open?.recordUse()
    this.#memory.release(reservedBytes)
    if (response !== undefined) {
      this.sendResponse(response)
      if (receivedAtMs !== undefined) this.#logResponse(response, receivedAtMs)
    }
    if (this.#isClosing) this.drain()
    this.onTurnsChange()
    this.#activeRequests.end()
  }

  /** There is no room to handle it: each of its calls gets an error, and none runs. */
  async #refuseMessage(message: Buffer): Promise<void> {
    if (message.length > maxRefusedMessageBytes || !this.#turns.recordRefusal()) return this.close(1013, 'too many bytes are in flight')
    const { endpoint, origin } = this.routedRequest
    const receivedAtMs = this.#accessLog.startTimer()
    const response = await handleMessage({ ...endpoint.messageHandler, run: refuseCall }, message, origin, this.#memory, this.#scheduler)
    const { body } = response
    if (receivedAtMs !== undefined) this.#logResponse(response, receivedAtMs)
    if (body !== undefined && this.#socket.readyState === this.#socket.OPEN) this.#sendQueue.sendRefusal(body)
    this.onTurnsChange()
  }

  #enqueue(body: ResponseBody, settle: OnSettled | undefined): boolean {
    if (this.#inFlightCount > 0) this.#cork.untilNextTick()
    return this.#sendQueue.send(body, settle)
  }

  #settle(replies: readonly Reply[], isTaken: boolean): void {
    settleResponse({ activeRequests: this.#activeRequests, log: this.#log }, replies, isTaken)
  }

  /** Too many bytes are queued. A single call gets an error. A batch has no id that identifies its calls, and gets close 1013. */
  #sendOverloaded(id: string, replies: readonly Reply[]): void {
    refundReplies({ log: this.#log }, replies, 'unavailable')
    const { body } = failureResponse(overloaded(), id)
    if (id === 'null') this.close(1013, 'too many responses are waiting to be read')
    else if (body !== undefined && this.#socket.readyState === this.#socket.OPEN) this.#sendQueue.sendRefusal(body)
  }

  #logResponse(response: RpcResponse, receivedAtMs: number): void {
    const { requestId, network, transport, state } = this.routedRequest.origin
    logResponse({ accessLog: this.#accessLog }, { requestId, network, transport, receivedAtMs, state }, response)
  }

  /** The caller does not read. */
  onSlowReader(): void {
    const { requestId, network } = this.routedRequest.origin
    this.#log.info({ event: 'slow-client', requestId, network }, 'client timed out reading responses; closing the WebSocket')
    this.terminate()
  }

  /** A caller that reads is alive, though its pong may be queued far behind. */
  onRead(): void {
    this.#missedPongs = 0
    this.onTurnsChange()
  }

  /** Reads only while more messages may be handled, and more responses queued. */
  onTurnsChange(): void {
    if (this.#inFlightCount >= maxConcurrentMessages || this.#turns.isWaiting || this.#sendQueue.needsDrain) this.#socket.pause()
    else if (this.#socket.isPaused) this.#socket.resume()
  }
}
