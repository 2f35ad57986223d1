import type { Clock } from '../services/clock.ts'
import { RecentMap } from '../util/recent-map.ts'

/** What waits for its turn. */
interface Work {
  readonly units: number
  run(): void
}

/** Work of one account: a call is one unit, and long messages are several. */
interface Lane {
  /** Units that the account has used and that no turn has paid yet. */
  usedUnits: number
  /** The turn up to which they have been paid. */
  turn: number
  /** Where its next waiting work begins in the time of the scheduler, which goes on by the units of each lane (start-time fair queueing). */
  start: number
  /** Undefined without any: most lanes have none, and each account that calls after hundreds of others needs a new one. */
  waiting: WaitingWork | undefined
}

interface WaitingWork {
  /** Calls that have been read. */
  readonly calls: Work[]
  /** Events that are to be sent: behind calls, whose callers wait for the answers. */
  readonly events: Work[]
  /** Connections that are read no further until their turn. */
  readonly reads: Work[]
}

const isWaiting = ({ waiting }: Lane): boolean => waiting !== undefined

/** Units that an account may use in one turn of the event loop while others call too; a turn of one account is 1 to 2 ms. */
const maxUnitsPerTurn = 16
/** The same while nobody else has called lately: all connections of one caller are served at once, as without a scheduler. */
const maxUnitsAlone = 256
/** Units that waiting calls of all accounts together get in one turn: fewer while turns take longer than they should. */
const maxWaitingUnitsPerTurn = 32
const minWaitingUnitsPerTurn = 4
/** A call that is not answered from memory takes several turns, so its caller waits several times so long. */
const maxTurnMs = 5
/**
 * Turns in a row that begin no waiting call because they accept a connection. libuv accepts one connection in a turn (since 1.45), so that with
 * hundreds of new connections, that of another caller would wait for as many turns of waiting calls: measured 370 ms of CPU time, and 50 ms so.
 */
const maxAcceptTurns = 32
/** While none of its calls waits, an account reads from so many connections in a turn as it may have calls handled. */
const unitsPerRead = 1
/** Turns for which an account that has called counts as another. */
const maxTurnsSinceOther = 2_000
/** Calls after which the end of a turn is marked: to mark it costs a microsecond. */
const callsPerMark = 8
/** Accounts that wait for nothing are forgotten once so many others have called. */
const maxLanes = 500

const bytesPerUnit = 512

/** The units of a message; 1 MiB takes 10 ms and more to parse. */
export const unitsOfMessage = (bytes: number): number => 1 + Math.floor(bytes / bytesPerUnit)

/**
 * Shares out the time of the event loop: an account that calls more than a turn has room for waits behind the calls of others,
 * which do not wait for its calls. Accounts that wait get equal units, however long each piece of their work is. Without load no call waits.
 */
export class FairScheduler {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #lanes = new RecentMap<Lane>(maxLanes, () => ({ usedUnits: 0, turn: this.#turn, start: 0, waiting: undefined }), isWaiting)
  readonly #waiting = new Set<Lane>()
  /** The start of the work that has begun last. */
  #virtualTime = 0
  #turn = 0
  #callsSinceMark = 0
  #isTurnEnding = false
  #latestLane: Lane | undefined
  #hasAccepted = false
  #acceptTurns = 0
  #readsAll = false
  #waitingUnitsPerTurn = maxWaitingUnitsPerTurn
  /** When the last turn ended, if calls were waiting then: the event loop has not been idle since. */
  #turnStartMs: number | undefined
  /** The latest turn in which two accounts called. */
  #mixedTurn = -maxTurnsSinceOther

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** Undefined when the work may begin at once; else it may begin when the promise resolves. */
  enter(owner: string, units: number): Promise<void> | undefined {
    return this.#enter(this.#laneOf(owner), 'calls', units)
  }

  /** The same before events are sent. */
  enterToSend(owner: string, units: number): Promise<void> | undefined {
    return this.#enter(this.#laneOf(owner), 'events', units)
  }

  /**
   * Before a connection is read on whose calls are all answered: undefined when it may be read at once, as the account has not used its share of the
   * time, or nobody else calls; else it may be read when the promise resolves.
   */
  enterToRead(owner: string): Promise<void> | undefined {
    if (!this.#isMixed || this.#readsAll) return undefined
    const lane = this.#laneOf(owner)
    return isWaiting(lane) || lane.usedUnits >= this.#maxUnits ? this.#wait(lane, 'reads', unitsPerRead) : undefined
  }

  /** The gateway stops: from now on all connections are read at once, as what they have sent would be lost when idle connections close. */
  readAll(): void {
    this.#readsAll = true
    for (const { waiting } of this.#waiting) for (const { run } of waiting?.reads ?? []) run()
  }

  /** A connection has been accepted; more may wait to be. */
  recordConnection(): void {
    this.#hasAccepted = true
  }

  /** Its number; it goes up while calls wait. */
  get turn(): number {
    return this.#turn
  }

  /** Messages that have been read, and wait. */
  get waitingCount(): number {
    return Array.from(this.#waiting).reduce((sum, { waiting }) => sum + (waiting?.calls.length ?? 0), 0)
  }

  /** Has another account called lately? */
  get #isMixed(): boolean {
    return this.#turn - this.#mixedTurn < maxTurnsSinceOther
  }

  get #maxUnits(): number {
    return this.#isMixed ? maxUnitsPerTurn : maxUnitsAlone
  }

  #enter(lane: Lane, kind: 'calls' | 'events', units: number): Promise<void> | undefined {
    this.#mark(lane)
    if (isWaiting(lane) || lane.usedUnits >= this.#maxUnits) return this.#wait(lane, kind, units)
    lane.usedUnits += units
    return undefined
  }

  #wait(lane: Lane, kind: keyof WaitingWork, units: number): Promise<void> {
    return new Promise(run => {
      if (!isWaiting(lane)) lane.start = Math.max(lane.start, this.#virtualTime)
      this.#waiting.add(lane)
      lane.waiting ??= { calls: [], events: [], reads: [] }
      lane.waiting[kind].push({ units, run })
      this.#endTurnLater()
    })
  }

  #laneOf(owner: string): Lane {
    const lane = this.#lanes.get(owner)
    if (lane.turn !== this.#turn) this.#pay(lane)
    return lane
  }

  /** Each turn since the last payment pays its units. */
  #pay(lane: Lane): void {
    lane.usedUnits = Math.max(0, lane.usedUnits - (this.#turn - lane.turn) * this.#maxUnits)
    lane.turn = this.#turn
  }

  #mark(lane: Lane): void {
    if (lane !== this.#latestLane) {
      if (this.#latestLane !== undefined) this.#mixedTurn = this.#turn
      this.#latestLane = lane
    }
    this.#callsSinceMark += 1
    if (this.#callsSinceMark >= callsPerMark) this.#endTurnLater()
  }

  #endTurnLater(): void {
    if (this.#isTurnEnding) return
    this.#isTurnEnding = true
    setImmediate(() => this.#endTurn())
  }

  #endTurn(): void {
    this.#isTurnEnding = false
    this.#callsSinceMark = 0
    this.#turn += 1
    if (this.#waiting.size === 0) return void (this.#turnStartMs = undefined)
    if (this.#isAccepting()) return this.#endTurnLater()
    this.#adaptToTurn()
    this.#skipIdleTurns()
    let units = 0
    while (units < this.#waitingUnitsPerTurn) {
      const lane = this.#nextLane()
      if (lane?.waiting === undefined) break
      units += this.#runNext(lane, lane.waiting)
    }
    if (this.#waiting.size > 0) this.#endTurnLater()
    else this.#turnStartMs = undefined
  }

  /** Of those that may use units in this turn, the one whose work begins first. */
  #nextLane(): Lane | undefined {
    let next: Lane | undefined
    for (const lane of this.#waiting) {
      this.#pay(lane)
      if (lane.usedUnits < maxUnitsPerTurn && (next === undefined || lane.start < next.start)) next = lane
    }
    return next
  }

  /**
   * Where all that wait have used more than their share, the turns until the first of them has paid are skipped: there is nothing else to do.
   * All have paid the same then, so that long messages of one account do not keep another waiting for longer than its own took.
   */
  #skipIdleTurns(): void {
    let leastUsedUnits = Infinity
    for (const lane of this.#waiting) {
      this.#pay(lane)
      if (lane.usedUnits < maxUnitsPerTurn) return
      leastUsedUnits = Math.min(leastUsedUnits, lane.usedUnits)
    }
    const turns = Math.ceil((leastUsedUnits + 1 - maxUnitsPerTurn) / this.#maxUnits)
    this.#turn += turns
    this.#mixedTurn += turns
  }

  /** True where waiting calls should wait for the next turn, which may accept a connection too. */
  #isAccepting(): boolean {
    const isAccepting = this.#hasAccepted && this.#acceptTurns < maxAcceptTurns
    this.#hasAccepted = false
    this.#acceptTurns = isAccepting ? this.#acceptTurns + 1 : 0
    return isAccepting
  }

  /** What a unit takes depends on the call, on the nodes and on the machine. */
  #adaptToTurn(): void {
    const nowMs = this.#clock.monotonic()
    if (this.#turnStartMs !== undefined) {
      const isLong = nowMs - this.#turnStartMs > maxTurnMs
      this.#waitingUnitsPerTurn = isLong
        ? Math.max(minWaitingUnitsPerTurn, this.#waitingUnitsPerTurn >> 1)
        : Math.min(maxWaitingUnitsPerTurn, this.#waitingUnitsPerTurn + 1)
    }
    this.#turnStartMs = nowMs
  }

  /** With each call that begins, the next one is read, which takes a quarter of its time. So most of the calls that wait take no memory. */
  #runNext(lane: Lane, { calls, events, reads }: WaitingWork): number {
    const call = calls.shift() ?? events.shift()
    const read = reads.shift()
    const units = call?.units ?? unitsPerRead
    lane.usedUnits += units
    this.#virtualTime = lane.start
    lane.start += Math.max(1, units)
    if (calls.length + events.length + reads.length === 0) {
      lane.waiting = undefined
      this.#waiting.delete(lane)
    }
    call?.run()
    read?.run()
    return Math.max(1, units)
  }
}
