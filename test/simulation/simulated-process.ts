import type { Account as Customer } from '../../src/plugin/call.ts'
import type { Clock } from '../../src/services/clock.ts'
import type { Log } from '../../src/services/log.ts'
import type { LedgerService } from '../../src/services/ledger/index.ts'
import type { LedgerStore } from '../../src/store/store.ts'
import { TestLog } from '../support/fakes.ts'
import type { SimulatedAccount } from './simulated-account.ts'
import { Reachability } from './reachability.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { ObservedDay } from './observed-day.ts'
import type { VirtualTime } from './virtual-time.ts'

type OpenLedgerFn = (store: LedgerStore, clock: Clock, options: { log: Log; newProcessName: () => string }) => LedgerService

/** One process with clocks of its own. When it is dead it hears nothing, and nothing that it planned happens. */
export class SimulatedProcess {
  readonly name: string
  readonly log = new TestLog()
  readonly reachability: Reachability
  /** What it was seen to serve, by day and account. */
  readonly observedDays = new Map<number, Map<SimulatedAccount, ObservedDay>>()
  /** The accounts with their plans, as far as it has heard. */
  readonly accounts = new Map<SimulatedAccount, Customer>()
  state: 'alive' | 'stopping' | 'stopped' | 'dead' = 'alive'
  /** How far its wall clock is ahead of the truth, ms. */
  clockSkewMs: number
  /** It stands still until then. */
  stalledUntil = -Infinity
  /** Calls that wait for their verdict. */
  pendingCalls = 0
  readonly #virtualTime: VirtualTime
  readonly #random: SeededRandom
  readonly #started: number
  #ledger: LedgerService | undefined

  constructor(name: string, virtualTime: VirtualTime, random: SeededRandom) {
    this.name = name
    this.reachability = new Reachability(() => virtualTime.now)
    this.#virtualTime = virtualTime
    this.#random = random
    this.#started = virtualTime.now - random.between(0, 1e9)
    this.clockSkewMs = random.between(-30_000, 30_000)
  }

  get ledger(): LedgerService {
    if (this.#ledger === undefined) throw new Error(`${this.name} has not been started`)
    return this.#ledger
  }

  start(openLedger: OpenLedgerFn, store: LedgerStore): void {
    this.#ledger = openLedger(store, this.#clock(), { log: this.log, newProcessName: () => this.name })
    void this.#ledger.start()
  }

  /** Runs after so many ms, or as soon after that as it does not stand still; never when it is dead by then. */
  schedule(ms: number, run: () => void): { cancel(): void } {
    const now = this.#virtualTime.now
    return this.#virtualTime.after(Math.max(ms, this.stalledUntil - now), () => {
      if (this.state === 'dead') return
      if (this.#virtualTime.now < this.stalledUntil) this.schedule(0, run)
      else run()
    })
  }

  #clock(): Clock {
    const after: Clock['after'] = (ms, run) => {
      let isCancelled = false
      // Node's timers come late rather than early.
      const timer = this.schedule(ms + this.#random.between(0, 2), () => {
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
      now: () => Math.floor(this.#virtualTime.now + this.clockSkewMs),
      monotonic: () => this.#virtualTime.now - this.#started,
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
