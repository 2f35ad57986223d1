import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { readAfterUpgrade } from '../runtime/http-internals.ts'
import { ParserInput, canPauseParser } from '../runtime/parser-input.ts'
import type { ParserError } from '../runtime/parser-input.ts'
import { getOrCreate } from '../util/memoize.ts'
import { openConnectionOf } from './open-connections.ts'
import type { OpenConnection } from './open-connections.ts'
import type { PacedAccount, PacedConnection, ReadPacing } from './read-pacing.ts'

/** Requests of one connection that are answered at the same time (pipelining); at this number reading from it pauses. */
const maxConcurrentRequests = 64

const connections = new WeakMap<Socket, CallerConnection>()

export const callerConnectionOf = (socket: Socket): CallerConnection => getOrCreate(connections, socket, newConnection)

const newConnection = (socket: Socket): CallerConnection => new CallerConnection(socket)

/** Tried with the first pipelined request, as few callers send any. */
let canHoldRequests: boolean | undefined

/**
 * Bounds the requests that one connection has in flight: Node starts each pipelined request as soon as it has been read, however many
 * have not been answered. Where Node's parser cannot be paused, requests that have been read already when reading pauses begin all the same.
 */
class CallerConnection implements PacedConnection {
  readonly #socket: Socket
  /** As one of the connections that accounts share out. */
  readonly open: OpenConnection | undefined
  #inFlightCount = 0
  /** Turns that are waited for: of the connection itself, and of parts of bodies. */
  #waitingCount = 0
  /** The latest of them. */
  #turn: Promise<void> | undefined
  #isPaused = false
  #isStopped = false
  /** Of the latest pipelined request, until it is closed. */
  #latestResponse: ServerResponse | undefined
  /** No request begins behind those that have begun. */
  #isClosing = false
  /** A call of the account that was read from the connection has had to wait; other connections need not be paced. */
  #account: PacedAccount | undefined
  /** Several accounts call on it. */
  #isShared = false
  /** Once there is a reason to know it. */
  #input: ParserInput | undefined
  #holdsRequests = false

  constructor(socket: Socket) {
    this.#socket = socket
    this.open = openConnectionOf(socket)
    if (this.open !== undefined) this.open.user = this
  }

  /** Is nothing more read from the connection, which is to be closed? */
  get isStopped(): boolean {
    return this.#isStopped
  }

  /** That for which it waits to be read on. */
  get turn(): Promise<void> | undefined {
    return this.#turn
  }

  get isAnswering(): boolean {
    return this.#inFlightCount > 0
  }

  /** A pipelined request has come in. False where it is not to be handled, as the connection closes after the response to an earlier one. */
  enqueue(res: ServerResponse): boolean {
    if (this.#isClosing) {
      this.stop()
      return false
    }
    this.#latestResponse = res
    res.once('close', () => {
      if (this.#latestResponse === res) this.#latestResponse = undefined
    })
    return true
  }

  /** Runs when the latest request is the one to be responded to, if that waits for others and its body has not arrived. */
  whenLatestIsNext(run: () => void): void {
    const latest = this.#latestResponse
    if (latest?.socket === null && !latest.req.complete) latest.once('socket', run)
  }

  /**
   * To be called as the gateway stops, before the response is sent: is it the last one of the connection? Requests behind it that have begun are
   * responded to as well, and further ones do not begin. Where the last one was made before the gateway stopped, the next request is the last.
   */
  closesAfter(res: ServerResponse): boolean {
    const last = this.#latestResponse ?? res
    this.#isClosing ||= !last.headersSent
    return last === res
  }

  /** A request has come in. */
  begin(): void {
    this.#inFlightCount += 1
    if (this.#inFlightCount >= maxConcurrentRequests) this.#pause()
  }

  /** Its response has been sent, or the caller has disconnected. */
  end(accountId: string | undefined): void {
    this.#inFlightCount -= 1
    this.open?.recordUse()
    if (this.#inFlightCount <= maxConcurrentRequests / 2) this.#resume()
    if (this.#account !== undefined) this.#recordAnswered(this.#account, accountId)
  }

  /** A call of the account that has been read from the connection waits for its turn. */
  recordWait(readPacing: ReadPacing, owner: string): void {
    if (this.#isShared || this.#socket.destroyed) return
    if (this.#account !== undefined && this.#account.owner !== owner) return this.#share()
    const account = readPacing.accountOf(owner, this.#socket)
    if (account === undefined) return
    if (this.#account === undefined) this.#socket.once('close', this.#leaveAccount)
    this.#account = account
    account.recordWait(this)
  }

  /** Reads on when it is the turn of the connection. */
  pauseUntil(turn: Promise<void>): void {
    this.#waitingCount += 1
    this.#turn = turn
    this.#pause()
    void turn.then(() => {
      this.#waitingCount -= 1
      if (this.#waitingCount === 0) this.#turn = undefined
      if (this.#inFlightCount < maxConcurrentRequests) this.#resume()
    })
  }

  /** What has been read already, of a body or of requests behind it, is dropped. */
  stop(): void {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#getInput().drop()
    this.#pause()
  }

  /** From now on, requests that have been read wait while the connection is paused. False where Node's parser cannot be paused. */
  holdRequests(): boolean {
    if (this.#holdsRequests) return true
    canHoldRequests ??= canPauseParser()
    if (!canHoldRequests || this.#isStopped) return false
    this.#getInput().pauseWhile(() => this.#isPaused)
    this.#holdsRequests = true
    return true
  }

  /** Does the error say that requests have been held? */
  recordHeld(error: ParserError): boolean {
    return this.#input?.holdRest(error) === true
  }

  /** To be called when Node has given up the connection for an upgrade. False where it closes after the response to an earlier request. */
  upgrade(): boolean {
    this.#input?.restore()
    this.#input = undefined
    this.#holdsRequests = false
    this.#leaveAccount()
    const isServed = !this.#isStopped && !this.#isClosing
    if (isServed) readAfterUpgrade(this.#socket)
    return isServed
  }

  /** A proxy sends calls of several accounts on one connection, and none of them waits for the turn of another. */
  #recordAnswered(account: PacedAccount, accountId: string | undefined): void {
    if (accountId !== undefined && accountId !== account.owner) this.#share()
    else if (!this.isAnswering && this.#socket.writable) account.recordAnswered(this)
  }

  #share(): void {
    this.#isShared = true
    this.#leaveAccount()
  }

  readonly #leaveAccount = (): void => {
    this.#socket.off('close', this.#leaveAccount)
    this.#account?.remove(this)
    this.#account = undefined
  }

  #getInput(): ParserInput {
    this.#input ??= new ParserInput(this.#socket)
    return this.#input
  }

  #pause(): void {
    if (this.#isPaused) return
    this.#isPaused = true
    // Node resumes the socket after each request, and each part of a body, that it has read.
    this.#socket.on('resume', this.#pauseAgain)
    this.#socket.pause()
  }

  #resume(): void {
    if (!this.#isPaused || this.#isStopped || this.#waitingCount > 0) return
    this.#isPaused = false
    this.#socket.off('resume', this.#pauseAgain)
    this.#socket.resume()
  }

  /** A resume that Node had begun when the socket was paused starts reading all the same: only the event stops that. */
  readonly #pauseAgain = (): void => {
    if (this.#socket.isPaused()) this.#socket.emit('pause')
    else this.#socket.pause()
  }
}

/** Is the gateway stopping, and this the last response of its connection? A caller gets no response behind one with `Connection: close`. */
export const closesToDrain = (
  { activeRequests }: { readonly activeRequests: { readonly isDraining: boolean } },
  res: ServerResponse,
): boolean => activeRequests.isDraining && callerConnectionOf(res.req.socket).closesAfter(res)

/** The address of the other end of the connection of a request. Read for each request: parseAddressText() would take 0.1 us more. */
export const peerAddressOf = ({ socket: { remoteAddress = '' } }: Pick<IncomingMessage, 'socket'>): string =>
  remoteAddress.startsWith('::ffff:') && remoteAddress.includes('.') ? remoteAddress.slice('::ffff:'.length) : remoteAddress

/** Node does not close a response that waits behind others of its connection (pipelining) when that connection closes. */
export const closeResponseWithSocket = (socket: Socket, res: ServerResponse): void => {
  const close = () => {
    res.destroy()
    res.emit('close')
  }
  socket.setMaxListeners(0).on('close', close)
  res.once('close', () => socket.off('close', close))
}
