import type { Socket } from 'node:net'
import { getOrCreate } from '../util/memoize.ts'
import type { FairScheduler } from './fair-scheduler.ts'

/** The address of the caller of a connection. Undefined where it is not known, or that of a trusted proxy: connections of proxies have many callers. */
export type ReadConnectionAddress = (socket: Socket) => string | undefined

/** A connection on which an account calls. */
export interface PacedConnection {
  /** Calls have been read from it that are not answered: the end of the last is recorded with recordAnswered(). */
  readonly isAnswering: boolean
  /** Nothing is read from it until the promise resolves. */
  pauseUntil(turn: Promise<void>): void
}

/**
 * So many connections of an account are read without a turn. To read a call takes 25 us before it is known whether it has to wait, and to read a
 * connection in turn takes 15 us more.
 */
const maxReadConnections = 128

/**
 * Once so many calls of an account have been read in one turn of the event loop that have to wait, its idle connections are read in turn too. With
 * fewer they are not, as each call would wait for the turns of all of them: measured with 4,800 idle connections beside 200 that call, 160 us of CPU
 * a call in place of 43.
 */
const maxWaitsInTurn = 128

/**
 * While calls of an account wait for their turn, its connections are read in turn too. Calls that arrive on thousands of connections at once
 * would all be read in one turn of the event loop, and the calls of other accounts would wait behind them.
 */
export class ReadPacing {
  readonly #scheduler: FairScheduler
  readonly #readAddress: ReadConnectionAddress
  readonly #accounts = new Map<string, PacedAccount>()

  constructor(scheduler: FairScheduler, readAddress: ReadConnectionAddress) {
    this.#scheduler = scheduler
    this.#readAddress = readAddress
  }

  /** Undefined for the connection of a trusted proxy, on which many accounts call. */
  accountOf(owner: string, socket: Socket): PacedAccount | undefined {
    if (this.#readAddress(socket) === undefined) return undefined
    return getOrCreate(this.#accounts, owner, () => new PacedAccount(owner, this.#scheduler, () => this.#accounts.delete(owner)))
  }
}

/** The connections of an account on which a call has had to wait. */
export class PacedAccount {
  readonly owner: string
  readonly #scheduler: FairScheduler
  readonly #onEmpty: () => void
  readonly #read = new Set<PacedConnection>()
  /** They are read when it is their turn. */
  readonly #waiting = new Set<PacedConnection>()
  /** The turn in which a call has waited last, and how many have. */
  #waitTurn = -1
  #waitsInTurn = 0

  constructor(owner: string, scheduler: FairScheduler, onEmpty: () => void) {
    this.owner = owner
    this.#scheduler = scheduler
    this.#onEmpty = onEmpty
  }

  /** A call of the account that has been read from the connection waits. */
  recordWait(connection: PacedConnection): void {
    if (!this.#waiting.has(connection)) this.#read.add(connection)
    const { turn } = this.#scheduler
    this.#waitsInTurn = turn === this.#waitTurn ? this.#waitsInTurn + 1 : 1
    this.#waitTurn = turn
    if (this.#waitsInTurn !== maxWaitsInTurn) return
    for (const each of this.#read) if (!each.isAnswering && !this.#readInTurn(each)) return
  }

  /** Every call that has been read from the connection is answered. */
  recordAnswered(connection: PacedConnection): void {
    if (!this.#waiting.has(connection)) this.#readInTurn(connection)
  }

  /** The connection is closed, or other accounts call on it too. */
  remove(connection: PacedConnection): void {
    this.#read.delete(connection)
    this.#waiting.delete(connection)
    if (this.#read.size === 0 && this.#waiting.size === 0) this.#onEmpty()
  }

  /** False when the connection, and others of the account, may be read at once. */
  #readInTurn(connection: PacedConnection): boolean {
    const turn = this.#read.size > maxReadConnections ? this.#scheduler.enterToRead(this.owner) : undefined
    if (turn === undefined) return false
    this.#read.delete(connection)
    this.#waiting.add(connection)
    connection.pauseUntil(turn)
    void turn.then(() => {
      if (this.#waiting.delete(connection)) this.#read.add(connection)
    })
    return true
  }
}
