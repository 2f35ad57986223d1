import type { Account } from '../../../src/plugin/call.ts'
import type { Clock } from '../../../src/services/clock.ts'
import { openLedger } from '../../../src/services/ledger/index.ts'
import type { LedgerService, ChargeResult } from '../../../src/services/ledger/index.ts'
import type { LeaseResponse, LedgerStore, HeartbeatResponse, DayTotals } from '../../../src/store/store.ts'
import type { LeaseRequest } from '../../../src/store/lease-accounting.ts'
import { InMemoryLedgerStore } from '../../../src/testing/in-memory-store.ts'
import { TestClock } from '../../../src/testing/test-clock.ts'
import { TestLog } from '../../../src/testing/test-log.ts'
import { recallTimeoutMs } from '../../../src/cluster/worker-messages.ts'
import { withTimeoutOr } from '../../../src/util/async.ts'
import { dayMs } from '../../../src/util/dates.ts'

/** Runs everything that is ready. */
export const drainEventLoop = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

export const accountWith = (dailyCredits: number, id = 'acc_1'): Account => ({
  id,
  name: id,
  plan: { name: 'core', dailyCredits, forwarding: false },
})

/** The network between processes and their store. While it holds messages, a message waits until the test delivers it. */
export class ManualNetwork implements LedgerStore {
  readonly horizonMs: number
  readonly messages: (() => void)[] = []
  readonly requests: LeaseRequest[] = []
  holdsMessages = false
  isDown = false
  /** Heartbeats never get a response. */
  holdsHeartbeats = false
  /** Of each message and its answer. */
  roundTripMs = 0
  readonly #store: InMemoryLedgerStore
  readonly #clock: Clock

  constructor(store: InMemoryLedgerStore, clock: Clock) {
    this.#store = store
    this.#clock = clock
    this.horizonMs = store.horizonMs
  }

  requestLease(request: LeaseRequest): Promise<LeaseResponse> {
    this.requests.push(request)
    return this.#transmit(() => this.#store.requestLease(request))
  }

  async heartbeat(process: string): Promise<HeartbeatResponse> {
    if (this.isDown) throw new Error('connection refused')
    if (this.holdsHeartbeats) return new Promise(() => {})
    if (this.roundTripMs > 0) await this.#travel()
    return this.#store.heartbeat(process)
  }

  async deregister(process: string): Promise<void> {
    if (this.isDown) throw new Error('connection refused')
    return this.#store.deregister(process)
  }

  dayTotals(account: string, day?: number): DayTotals {
    return this.#store.dayTotals(account, day)
  }

  /** Removes a message. The result delivers it, each time that it is called. */
  take(index: number): () => void {
    return this.messages.splice(index, 1)[0] ?? (() => {})
  }

  /** Delivers all messages, and those that follow from them. */
  async deliver(): Promise<void> {
    for (; this.messages.length > 0; await drainEventLoop()) this.take(0)()
  }

  #travel(): Promise<void> {
    return new Promise(resolve => this.#clock.after(this.roundTripMs, resolve))
  }

  async #transmit<T>(request: () => Promise<T>): Promise<T> {
    if (this.isDown) throw new Error('connection refused')
    if (this.roundTripMs > 0) await this.#travel()
    if (!this.holdsMessages) return request()
    return new Promise((resolve, reject) => {
      this.messages.push(() => {
        request().then(response => this.messages.push(() => resolve(response)), reject)
      })
    })
  }
}

/** One process with a ledger. After kill() its requests are not sent and its timers do not run. */
export class TestProcess {
  readonly ledger: LedgerService
  readonly log = new TestLog()
  isDead = false

  /** `recall` as in LedgerClientOptions. */
  constructor(store: LedgerStore, clock: Clock, name: string, recall?: (account: string) => Promise<void>) {
    const unlessDead = <T>(request: () => Promise<T>): Promise<T> => (this.isDead ? new Promise(() => {}) : request())
    const ownStore: LedgerStore = {
      horizonMs: store.horizonMs,
      requestLease: request => unlessDead(() => store.requestLease(request)),
      heartbeat: process => unlessDead(() => store.heartbeat(process)),
      deregister: process => unlessDead(() => store.deregister(process)),
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
    this.ledger = openLedger(ownStore, ownClock, { log: this.log, process: name, ...(recall && { recall }) })
  }

  kill(): void {
    this.isDead = true
  }
}

/** Several processes, their network, a store in memory, and a clock that the test advances. */
export class TestCluster {
  readonly clock: TestClock
  readonly network: ManualNetwork
  readonly processes: TestProcess[] = []
  /** The processes are workers of one gateway, which return credits for each other's calls. */
  readonly #isGateway: boolean

  constructor(start = Date.UTC(2026, 0, 15, 12), { isGateway = false } = {}) {
    this.#isGateway = isGateway
    this.clock = new TestClock(start)
    this.network = new ManualNetwork(new InMemoryLedgerStore(this.clock), this.clock)
  }

  async start(): Promise<TestProcess> {
    const recall = (account: string) => this.#recall(account, process)
    const process: TestProcess = new TestProcess(
      this.network,
      this.clock,
      `p${this.processes.length}`,
      this.#isGateway ? recall : undefined,
    )
    this.processes.push(process)
    await process.ledger.start()
    return process
  }

  /** As the primary of a gateway does, which does not wait for a worker for long. */
  async #recall(account: string, needing: TestProcess): Promise<void> {
    const others = this.processes.filter(process => process !== needing && !process.isDead)
    const returned = Promise.all(others.map(({ ledger }) => ledger.returnUnused(account)))
    await withTimeoutOr(this.clock, recallTimeoutMs, returned, () => undefined)
  }

  /** Advances the clock in small steps, and runs everything that is ready in between. No step passes midnight. */
  async advance(ms: number, stepMs = 50): Promise<void> {
    await drainEventLoop()
    for (let left = ms; left > 0; ) {
      const untilMidnight = dayMs - (this.clock.now() % dayMs)
      const size = Math.min(left, stepMs, untilMidnight > 1 ? untilMidnight - 1 : 1)
      this.clock.advance(size)
      await drainEventLoop()
      left -= size
    }
  }
}

/** The kinds of the results, to compare in one line. */
export const kindsOf = async (results: readonly (ChargeResult | Promise<ChargeResult>)[]): Promise<readonly string[]> =>
  (await Promise.all(results)).map(({ kind }) => kind)

/** True for a call that waits for the store. */
export const isPending = (result: ChargeResult | Promise<ChargeResult>): result is Promise<ChargeResult> => result instanceof Promise
