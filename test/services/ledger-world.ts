import type { Account } from '../../src/call.ts'
import type { Clock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger.ts'
import type { OpenLedger, Verdict } from '../../src/services/ledger.ts'
import type { Answer, LedgerStore, Pulse, Totals } from '../../src/store/store.ts'
import type { Ask } from '../../src/store/lease.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { MemoryLedger } from '../store/memory.ts'

/** Lets all that is ready happen. */
export const settle = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

export const accountWith = (dailyCredits: number, id = 'acc_1'): Account => ({
  id,
  name: id,
  plan: { name: 'core', dailyCredits, forwarding: false },
})

/** What lies between processes and their store. While it is slow, a message stays until the test lets it go. */
export class Wire implements LedgerStore {
  readonly horizon: number
  readonly messages: (() => void)[] = []
  readonly asks: Ask[] = []
  isSlow = false
  isDown = false
  /** Heartbeats too stay, and for good. */
  hangs = false
  readonly #store: LedgerStore

  constructor(store: LedgerStore) {
    this.#store = store
    this.horizon = store.horizon
  }

  ask(ask: Ask): Promise<Answer> {
    this.asks.push(ask)
    return this.#carry(() => this.#store.ask(ask))
  }

  async beat(process: string): Promise<Pulse> {
    if (this.isDown) throw new Error('connection refused')
    if (this.hangs) return new Promise(() => {})
    return this.#store.beat(process)
  }

  async leave(process: string): Promise<void> {
    if (this.isDown) throw new Error('connection refused')
    return this.#store.leave(process)
  }

  totals(account: string, day?: number): Totals {
    return this.#store.totals(account, day) as Totals // only stores that answer at once are used here
  }

  /** Takes a message out, which then arrives when it is called, however often. */
  take(index: number): () => void {
    return this.messages.splice(index, 1)[0] ?? (() => {})
  }

  /** All messages arrive, and those that follow from them. */
  async deliver(): Promise<void> {
    for (; this.messages.length > 0; await settle()) this.take(0)()
  }

  async #carry<T>(work: () => Promise<T>): Promise<T> {
    if (this.isDown) throw new Error('connection refused')
    if (!this.isSlow) return work()
    return new Promise((resolve, reject) => {
      this.messages.push(() => {
        work().then(answer => this.messages.push(() => resolve(answer)), reject)
      })
    })
  }
}

/** One process with a ledger, which can be killed: nothing that it does reaches anybody any more. */
export class Process {
  readonly ledger: OpenLedger
  readonly log = new TestLog()
  isDead = false

  constructor(store: LedgerStore, clock: Clock, name: string) {
    const unlessDead = <T>(work: () => Promise<T>): Promise<T> => (this.isDead ? new Promise(() => {}) : work())
    const own: LedgerStore = {
      horizon: store.horizon,
      ask: ask => unlessDead(() => store.ask(ask)),
      beat: process => unlessDead(() => store.beat(process)),
      leave: process => unlessDead(() => store.leave(process)),
      totals: (account, day) => store.totals(account, day),
    }
    const ownClock: Clock = {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      after: (ms, run) =>
        clock.after(ms, () => {
          if (!this.isDead) run()
        }),
      every: (ms, run) =>
        clock.every(ms, () => {
          if (!this.isDead) run()
        }),
    }
    this.ledger = openLedger(own, ownClock, { log: this.log, random: () => name })
  }

  kill(): void {
    this.isDead = true
  }
}

/** Several processes, a wire, a store in memory and one clock that is turned by hand. */
export class World {
  readonly clock: TestClock
  readonly wire: Wire
  readonly processes: Process[] = []

  constructor(start = Date.UTC(2026, 0, 15, 12)) {
    this.clock = new TestClock(start)
    this.wire = new Wire(new MemoryLedger(this.clock))
  }

  async start(): Promise<Process> {
    const process = new Process(this.wire, this.clock, `p${this.processes.length}`)
    this.processes.push(process)
    await process.ledger.start()
    return process
  }

  /** Time passes in small steps, and whatever is ready happens in between. No step goes over midnight. */
  async turn(ms: number, step = 50): Promise<void> {
    await settle()
    for (let left = ms; left > 0; ) {
      const untilMidnight = day - (this.clock.now() % day)
      const size = Math.min(left, step, untilMidnight > 1 ? untilMidnight - 1 : 1)
      this.clock.turn(size)
      await settle()
      left -= size
    }
  }
}

const day = 86_400_000

/** The kinds of verdicts, to compare in one line. */
export const kinds = async (verdicts: readonly (Verdict | Promise<Verdict>)[]): Promise<readonly string[]> =>
  (await Promise.all(verdicts)).map(verdict => verdict.kind)
