import type { Account } from '../../src/plugin/call.ts'
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

type OpenLedgerFn = (store: LedgerStore, clock: Clock, options: { log: Log; process: string }) => LedgerService

/** One process with its own clocks. A dead process gets no responses, and none of its timers run. */
export class SimulatedProcess {
  readonly name: string
  readonly log = new TestLog()
  readonly reachability: Reachability
  /** By day and account. */
  readonly observedDays = new Map<number, Map<SimulatedAccount, ObservedDay>>()
  /** The accounts with their plans, as this process knows them. */
  readonly accounts = new Map<SimulatedAccount, Account>()
  state: 'alive' | 'stopping' | 'stopped' | 'dead' = 'alive'
  /** By how much its wall clock is ahead of the true time. */
  clockSkewMs: number
  /** The process runs nothing until then. */
  stalledUntil = -Infinity
  /** Calls without a result yet. */
  pendingCalls = 0
  readonly #virtualTime: VirtualTime
  readonly #random: SeededRandom
  readonly #startedAt: number
  #ledger: LedgerService | undefined

  constructor(name: string, virtualTime: VirtualTime, random: SeededRandom) {
    this.name = name
    this.reachability = new Reachability(() => virtualTime.now)
    this.#virtualTime = virtualTime
    this.#random = random
    this.#startedAt = virtualTime.now - random.between(0, 1e9)
    this.clockSkewMs = random.between(-30_000, 30_000)
  }

  get ledger(): LedgerService {
    if (this.#ledger === undefined) throw new Error(`${this.name} has not been started`)
    return this.#ledger
  }

  start(openLedger: OpenLedgerFn, store: LedgerStore): void {
    this.#ledger = openLedger(store, this.#clock(), { log: this.log, process: this.name })
    void this.#ledger.start()
  }

  /** Runs after `ms`, or when a stall ends after that; never when the process is dead by then. */
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
      // Node's timers fire late rather than early.
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
      monotonic: () => this.#virtualTime.now - this.#startedAt,
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
