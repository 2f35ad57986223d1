import type { WebSocket } from 'ws'
import type { CallerMemory } from '../services/memory-budget.ts'
import type { FairScheduler } from './fair-scheduler.ts'

/** Messages of one WebSocket that are handled at the same time; at this number reading from it pauses. */
const maxConcurrentMessages = 200

/** The work for a refused message, and for those that were read with it: they are refused at once, as there is no room to keep them. */
const unitsPerRefusal = 16

/** Messages that are refused before the next turn; more are not even parsed, and the connection is closed. One read brings up to 9,000. */
const maxRefusalsPerTurn = 1_024

/** Pings or pongs that take as long as a call. */
const controlFramesPerUnit = 32

/** What reading from a WebSocket depends on. */
interface WsReadingOptions {
  readonly scheduler: FairScheduler
  readonly memory: CallerMemory
  /** Are too many responses waiting to be read? */
  needsDrain(): boolean
}

/** Pauses reading from a WebSocket while its messages wait for their turn, too many are in flight, or its responses are not read. */
export class WsReading {
  readonly #socket: WebSocket
  readonly #options: WsReadingOptions
  #inFlightCount = 0
  #waitingCount = 0
  #refusalCount = 0
  #controlFrameCount = 0

  constructor(socket: WebSocket, options: WsReadingOptions) {
    this.#socket = socket
    this.#options = options
  }

  /** Messages that are being handled, or wait for it. */
  get inFlightCount(): number {
    return this.#inFlightCount
  }

  begin(): void {
    this.#inFlightCount += 1
    if (this.#inFlightCount >= maxConcurrentMessages) this.update()
  }

  end(): void {
    this.#inFlightCount -= 1
  }

  /** Undefined when the work may begin at once; else it may begin when the promise resolves, and nothing is read until then. */
  enter(units: number): Promise<void> | undefined {
    const { scheduler, memory } = this.#options
    const turn = scheduler.enter(memory.owner, units)
    return turn === undefined ? undefined : this.#wait(turn)
  }

  /** False when too many messages have been refused since the last turn. */
  recordRefusal(): boolean {
    if (this.#refusalCount > 0) return (this.#refusalCount += 1) <= maxRefusalsPerTurn
    const turn = this.enter(unitsPerRefusal)
    if (turn === undefined) return true
    this.#refusalCount = 1
    void turn.then(() => {
      this.#refusalCount = 0
    })
    return true
  }

  /** A ping or a pong: they come thousands at once too. */
  recordControlFrame(): void {
    this.#controlFrameCount += 1
    if (this.#controlFrameCount % controlFramesPerUnit === 0) void this.enter(1)
  }

  update(): void {
    if (this.#inFlightCount >= maxConcurrentMessages || this.#waitingCount > 0 || this.#options.needsDrain()) {
      if (!this.#socket.isPaused) this.#socket.pause()
    } else if (this.#socket.isPaused) this.#socket.resume()
  }

  async #wait(turn: Promise<void>): Promise<void> {
    this.#waitingCount += 1
    this.update()
    await turn
    this.#waitingCount -= 1
    this.update()
  }
}
