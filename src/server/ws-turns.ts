import type { CallerMemory } from '../services/memory-budget.ts'
import type { RpcServices } from './rpc-services.ts'

/** The work for a refused message, and for those that were read with it: they are refused at once, as there is no room to keep them. */
const unitsPerRefusal = 16

/** Messages that are refused before the next turn; more are not even parsed, and the connection is closed. One read brings up to 9,000. */
const maxRefusalsPerTurn = 1_024

/** Pings, pongs or ignored messages that take as long as a call. */
const smallFramesPerUnit = 32

/** Bytes that take as long to read and to unmask as a call takes to handle: messages take 200 ms of CPU time when 128 MiB of them have arrived. */
const readBytesPerUnit = 65_536

export interface WsTurnsUser {
  readonly memory: CallerMemory
  /** The WebSocket begins to wait, or need no longer wait. */
  onTurnsChange(): void
}

/** What of a WebSocket waits for its turn. While anything does, nothing is read from it. */
export class WsTurns {
  readonly #user: WsTurnsUser
  readonly #scheduler: RpcServices['scheduler']
  #waitingCount = 0
  #refusalCount = 0
  #smallFrameCount = 0
  /** Since the last unit of them. */
  #arrivedBytes = 0

  constructor(user: WsTurnsUser, scheduler: RpcServices['scheduler']) {
    this.#user = user
    this.#scheduler = scheduler
  }

  get isWaiting(): boolean {
    return this.#waitingCount > 0
  }

  /** Undefined when the work may begin at once; else it may begin when the promise resolves. */
  enter(units: number): Promise<void> | undefined {
    const turn = this.#scheduler.enter(this.#user.memory.owner, units)
    return turn === undefined ? undefined : this.wait(turn)
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

  /** Bytes have arrived, of messages that are complete or not. */
  recordBytes(byteLength: number): void {
    this.#arrivedBytes += byteLength
    if (this.#arrivedBytes < readBytesPerUnit) return
    const units = Math.floor(this.#arrivedBytes / readBytesPerUnit)
    this.#arrivedBytes -= units * readBytesPerUnit
    void this.enter(units)
  }

  /** A ping, a pong, or a message that is ignored: they come thousands at once too. */
  recordSmallFrame(): void {
    this.#smallFrameCount += 1
    if (this.#smallFrameCount % smallFramesPerUnit === 0) void this.enter(1)
  }

  async wait(turn: Promise<void>): Promise<void> {
    this.#waitingCount += 1
    if (this.#waitingCount === 1) this.#user.onTurnsChange()
    await turn
    this.#waitingCount -= 1
    if (this.#waitingCount === 0) this.#user.onTurnsChange()
  }
}
