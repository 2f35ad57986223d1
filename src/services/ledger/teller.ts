import { dayLength } from '../../store/store.ts'
import type { Answer, LedgerStore, Moment } from '../../store/store.ts'
import type { Clock, Timer } from '../clock.ts'
import { inTime } from '../in-time.ts'
import type { Log } from '../log.ts'
import { openQueue } from '../queue.ts'
import type { Lease } from './lease.ts'

/** What is asked for beyond what a lease says of itself. */
export interface Wish {
  readonly need: number
  readonly want: number
  readonly limit: number
}

/** Speaks with the store for all purses of a process: numbers asks, keeps the day, notices when the store is away. */
export class Teller {
  readonly clock: Clock
  readonly horizon: number
  readonly #store: LedgerStore
  readonly #process: string
  readonly #log: Log
  #seq = 0
  /** How many live, as the store counts them. */
  #processes = 1
  #day = -1
  #midnight = Infinity
  #heardAt = -Infinity
  #awaySince = Infinity
  /** How often it has gone away. */
  #outages = 0
  /** When thousands of accounts come at once, a store that answers all of them in turn is not away. */
  readonly #queue = openQueue(mostAtOnce)
  #isBehind = false
  #pulse: Timer | undefined
  #beating: Promise<void> | undefined

  constructor(store: LedgerStore, clock: Clock, process: string, log: Log) {
    this.clock = clock
    this.horizon = store.horizon
    this.#store = store
    this.#process = process
    this.#log = log
  }

  /** Resolves when the store has counted this process, or could not be asked. */
  async start(): Promise<void> {
    this.#pulse ??= this.clock.every(heartbeat, () => this.#beat())
    await this.#beat()
  }

  /** Comes after all leases have been settled. */
  async stop(): Promise<void> {
    this.#pulse?.cancel()
    await this.#beating
    await this.#reach(
      () => this.#store.leave(this.#process),
      () => {},
    )
  }

  /** The store's day, by the monotonic clock: it never begins later than it does for the store, and never goes back. */
  today(now: number): number {
    if (now >= this.#midnight) {
      this.#day += 1
      this.#midnight = Infinity
    }
    return this.#day
  }

  /** Milliseconds until the next day, as far as it is known. */
  endsIn(now: number): number {
    return this.#midnight === Infinity ? dayLength : this.#midnight - now
  }

  /** For how many ms the store has not answered; undefined while it does. */
  awayFor(now: number): number | undefined {
    return this.#awaySince === Infinity ? undefined : now - this.#awaySince
  }

  /**
   * Asks the store. What it grants is in the lease when this resolves, or later if the answer takes too long to be
   * waited for. Undefined: the store is away.
   */
  async ask(account: string, lease: Lease, wish: Wish): Promise<Answer | undefined> {
    const outages = this.#outages
    // Who stands in line when the store goes away hears so with the others.
    const answer = await this.#queue(async () => (outages === this.#outages ? this.#send(account, lease, wish) : undefined))
    if (answer === undefined || answer.today >= lease.day) return answer
    // The day has begun here, and for the store it is about to.
    if (answer.endsIn > retry) return undefined
    await new Promise<void>(resolve => this.clock.after(answer.endsIn, resolve))
    return this.ask(account, lease, wish)
  }

  #send(account: string, lease: Lease, wish: Wish): Promise<Answer | undefined> {
    const seq = (this.#seq += 1)
    const said = { account, day: lease.day, process: this.#process, seq, tally: lease.tell(seq) }
    const sent = this.clock.monotonic()
    return this.#reach(
      () => this.#store.ask({ ...said, ...wish, share: 2 * this.#processes }),
      late => {
        this.#keepTime(sent, late)
        lease.hear(seq, late.tally)
      },
    )
  }

  #beat(): Promise<void> {
    const sent = this.clock.monotonic()
    this.#beating ??= this.#reach(
      () => this.#store.beat(this.#process),
      pulse => {
        this.#keepTime(sent, pulse)
        this.#processes = pulse.processes
      },
    ).then(() => {
      this.#beating = undefined
    })
    return this.#beating
  }

  /**
   * Counted from the moment the question was sent, midnight comes early rather than late. A store reads its clock in
   * whole milliseconds, so the day may end by nearly one of them sooner than it says.
   */
  #keepTime(sent: number, { today, endsIn }: Moment): void {
    if (sent < this.#heardAt || today < this.#day) return
    const isBehind = endsIn > dayLength + slack
    if (isBehind && !this.#isBehind) {
      this.#log.warn({ day: today, endsIn }, 'the clock went back to before the day that the store is in: it lasts longer')
    }
    this.#isBehind = isBehind
    this.#heardAt = sent
    this.#day = today
    this.#midnight = sent + endsIn - 1
  }

  /** Undefined when the store fails or is slow; `take` gets what it answers even then. */
  async #reach<T>(question: () => Promise<T>, take: (answer: T) => void): Promise<T | undefined> {
    try {
      const answer = await inTime(
        this.clock,
        question().then(found => {
          take(found)
          return found
        }),
      )
      if (this.#awaySince < Infinity) this.#log.info({}, 'the store answers again')
      this.#awaySince = Infinity
      return answer
    } catch (error) {
      if (this.#awaySince === Infinity) this.#miss(error)
      return undefined
    }
  }

  #miss(error: unknown): void {
    this.#log.warn({ err: error }, 'the store does not answer: leases in hand are spent')
    this.#awaySince = this.clock.monotonic()
    this.#outages += 1
  }
}

/** Before the store is asked again for what it did not have, or after it was away; ms. */
export const retry = 250
const heartbeat = 1_000
/** Asks that are under way at once: a fraction of what any store answers within a second. */
const mostAtOnce = 500
/** What clocks are put right by without anybody noticing; ms. */
const slack = 1_000
