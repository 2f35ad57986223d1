import type { Account } from '../../../src/plugin/call.ts'
import type { Clock } from '../../../src/services/clock.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import type { LedgerService, ChargeResult } from '../../../src/services/ledger/index.ts'
import type { LeaseResponse, LedgerStore, HeartbeatResponse, DayTotals } from '../../../src/store/store.ts'
import type { LeaseRequest } from '../../../src/store/lease-accounting.ts'
import { TestClock, TestLog } from '../../support/fakes.ts'
import { InMemoryLedgerStore } from '../../store/in-memory-store.ts'
import { dayMs } from '../../../src/util/dates.ts'

/** Lets all that is ready happen. */
export const drainEventLoop = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

export const accountWith = (dailyCredits: number, id = 'acc_1'): Account => ({
  id,
  name: id,
  plan: { name: 'core', dailyCredits, forwarding: false },
})

/** What lies between processes and their store. While it is slow, a message stays until the test lets it go. */
export class ManualNetwork implements LedgerStore {
  readonly horizonMs: number
  readonly messages: (() => void)[] = []
  readonly requests: LeaseRequest[] = []
  holdsMessages = false
  isDown = false
  /** Heartbeats too stay, and for good. */
  holdsHeartbeats = false
  readonly #store: LedgerStore

  constructor(store: LedgerStore) {
    this.#store = store
    this.horizonMs = store.horizonMs
  }

  requestLease(ask: LeaseRequest): Promise<LeaseResponse> {
    this.requests.push(ask)
    return this.#transmit(() => this.#store.requestLease(ask))
  }

  async heartbeat(process: string): Promise<HeartbeatResponse> {
    if (this.isDown) throw new Error('connection refused')
    if (this.holdsHeartbeats) return new Promise(() => {})
    return this.#store.heartbeat(process)
  }

  async deregister(process: string): Promise<void> {
    if (this.isDown) throw new Error('connection refused')
    return this.#store.deregister(process)
  }

  dayTotals(account: string, day?: number): DayTotals {
    return this.#store.dayTotals(account, day) as DayTotals // only stores that answer at once are used here
  }

  /** Takes a message out, which then arrives when it is called, however often. */
  take(index: number): () => void {
    return this.messages.splice(index, 1)[0] ?? (() => {})
  }

  /** All messages arrive, and those that follow from them. */
  async deliver(): Promise<void> {
    for (; this.messages.length > 0; await drainEventLoop()) this.take(0)()
  }

  async #transmit<T>(work: () => Promise<T>): Promise<T> {
    if (this.isDown) throw new Error('connection refused')
    if (!this.holdsMessages) return work()
    return new Promise((resolve, reject) => {
      this.messages.push(() => {
        work().then(answer => this.messages.push(() => resolve(answer)), reject)
      })
    })
  }
}

/** One process with a ledger, which can be killed: nothing that it does reaches anybody any more. */
export class TestProcess {
  readonly ledger: LedgerService
  readonly log = new TestLog()
  isDead = false

  constructor(store: LedgerStore, clock: Clock, name: string) {
    const unlessDead = <T>(work: () => Promise<T>): Promise<T> => (this.isDead ? new Promise(() => {}) : work())
    const own: LedgerStore = {
      horizonMs: store.horizonMs,
      requestLease: ask => unlessDead(() => store.requestLease(ask)),
      heartbeat: process => unlessDead(() => store.heartbeat(process)),
      deregister: process => unlessDead(() => store.deregister(process)),
      dayTotals: (account, day) => store.dayTotals(account, day),
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
    this.ledger = openLedger(own, ownClock, { log: this.log, newProcessName: () => name })
  }

  kill(): void {
    this.isDead = true
  }
}

/** Several processes, a wire, a store in memory and one clock that is turned by hand. */
export class TestCluster {
  readonly clock: TestClock
  readonly network: ManualNetwork
  readonly processes: TestProcess[] = []

  constructor(start = Date.UTC(2026, 0, 15, 12)) {
    this.clock = new TestClock(start)
    this.network = new ManualNetwork(new InMemoryLedgerStore(this.clock))
  }

  async start(): Promise<TestProcess> {
    const process = new TestProcess(this.network, this.clock, `p${this.processes.length}`)
    this.processes.push(process)
    await process.ledger.start()
    return process
  }

  /** Time passes in small steps, and whatever is ready happens in between. No step goes over midnight. */
  async advance(ms: number, step = 50): Promise<void> {
    await drainEventLoop()
    for (let left = ms; left > 0; ) {
      const untilMidnight = dayMs - (this.clock.now() % dayMs)
      const size = Math.min(left, step, untilMidnight > 1 ? untilMidnight - 1 : 1)
      this.clock.advance(size)
      await drainEventLoop()
      left -= size
    }
  }
}

/** The kinds of verdicts, to compare in one line. */
export const kindsOf = async (results: readonly (ChargeResult | Promise<ChargeResult>)[]): Promise<readonly string[]> =>
  (await Promise.all(results)).map(verdict => verdict.kind)
