import type { Account as Customer } from '../../src/call.ts'
import type { Clock } from '../../src/services/clock.ts'
import type { Log } from '../../src/services/log.ts'
import type { OpenLedger } from '../../src/services/ledger.ts'
import type { LedgerStore } from '../../src/store/store.ts'
import { TestLog } from '../support/fakes.ts'
import type { Account } from './account.ts'
import { Contact } from './contact.ts'
import type { Random } from './random.ts'
import type { Sheet } from './sheet.ts'
import type { Timeline } from './timeline.ts'

type OpenLedgerOn = (store: LedgerStore, clock: Clock, options: { log: Log; random: () => string }) => OpenLedger

/** One process with clocks of its own. When it is dead it hears nothing, and nothing that it planned happens. */
export class Machine {
  readonly name: string
  readonly log = new TestLog()
  readonly contact: Contact
  /** What it was seen to serve, by day and account. */
  readonly sheets = new Map<number, Map<Account, Sheet>>()
  /** The accounts with their plans, as far as it has heard. */
  readonly accounts = new Map<Account, Customer>()
  state: 'alive' | 'stopping' | 'stopped' | 'dead' = 'alive'
  /** How far its wall clock is ahead of the truth, ms. */
  skew: number
  /** It stands still until then. */
  stalledUntil = -Infinity
  /** Calls that wait for their verdict. */
  waiting = 0
  readonly #timeline: Timeline
  readonly #random: Random
  readonly #started: number
  #ledger: OpenLedger | undefined

  constructor(name: string, timeline: Timeline, random: Random) {
    this.name = name
    this.contact = new Contact(() => timeline.now)
    this.#timeline = timeline
    this.#random = random
    this.#started = timeline.now - random.between(0, 1e9)
    this.skew = random.between(-30_000, 30_000)
  }

  get ledger(): OpenLedger {
    if (this.#ledger === undefined) throw new Error(`${this.name} has not been started`)
    return this.#ledger
  }

  start(openLedger: OpenLedgerOn, store: LedgerStore): void {
    this.#ledger = openLedger(store, this.#clock(), { log: this.log, random: () => this.name })
    void this.#ledger.start()
  }

  /** Runs after so many ms, or as soon after that as it does not stand still; never when it is dead by then. */
  wake(ms: number, run: () => void): { cancel(): void } {
    const now = this.#timeline.now
    return this.#timeline.after(Math.max(ms, this.stalledUntil - now), () => {
      if (this.state === 'dead') return
      if (this.#timeline.now < this.stalledUntil) this.wake(0, run)
      else run()
    })
  }

  #clock(): Clock {
    const after: Clock['after'] = (ms, run) => {
      let isCancelled = false
      // Node's timers come late rather than early.
      const timer = this.wake(ms + this.#random.between(0, 2), () => {
        if (!isCancelled) run()
      })
      return {
        cancel: () => {
          isCancelled = true
          timer.cancel()
        },
      }
    }
    return {
      now: () => Math.floor(this.#timeline.now + this.skew),
      monotonic: () => this.#timeline.now - this.#started,
      after,
      every: (ms, run) => {
        let timer = after(ms, () => again())
        const again = () => {
          timer = after(ms, again)
          run()
        }
        return { cancel: () => timer.cancel() }
      },
    }
  }
}
