import type { LedgerStore } from '../../src/store/store.ts'
import type { LeaseRequest } from '../../src/store/lease-accounting.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { VirtualTime } from './virtual-time.ts'
import type { FaultProfile } from './fault-profile.ts'

/** What lies between the processes and their store: it loses, doubles, delays and reorders. */
export class UnreliableNetwork {
  /** `silent`: whoever asks hears nothing; `refusing`: they hear so at once. */
  state: 'open' | 'silent' | 'refusing' = 'open'
  /** None of the faults below any more. */
  isFaultless = false
  readonly #virtualTime: VirtualTime
  readonly #random: SeededRandom
  readonly #faultProfile: FaultProfile
  readonly #store: LedgerStore
  readonly #onLeaseRequest: OnLeaseRequest

  constructor({ store, virtualTime: timeline, random, faultProfile: weather }: NetworkOptions, asked: OnLeaseRequest) {
    this.#store = store
    this.#virtualTime = timeline
    this.#random = random
    this.#faultProfile = weather
    this.#onLeaseRequest = asked
  }

  /** The store as one process sees it. */
  storeFor(machine: SimulatedProcess): LedgerStore {
    const store = this.#store
    return {
      horizonMs: store.horizonMs,
      requestLease: ask => {
        const sent = this.#virtualTime.now
        return machine.reachability.track(
          this.#transmit(machine, () => {
            const answer = store.requestLease(ask)
            this.#onLeaseRequest(machine, ask, sent)
            return answer
          }),
        )
      },
      heartbeat: process => machine.reachability.track(this.#transmit(machine, () => store.heartbeat(process))),
      deregister: process => this.#transmit(machine, () => store.deregister(process)),
      dayTotals: (account, day) => store.dayTotals(account, day),
    }
  }

  #transmit<T>(machine: SimulatedProcess, question: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const refuse = () => machine.schedule(this.#randomDelayMs(), () => reject(new Error('connection refused')))
      const arrive = (): void => {
        if (this.state === 'refusing') return void refuse()
        if (this.state === 'silent') return
        void question().then(answer => this.#sendResponse(machine, () => resolve(answer), refuse))
      }
      this.#send(arrive)
      if (this.#happens(this.#faultProfile.duplicationRate)) this.#send(arrive)
    })
  }

  #send(arrive: () => void): void {
    if (!this.#happens(this.#faultProfile.lossRate / 2)) this.#virtualTime.after(this.#randomDelayMs(), arrive)
  }

  /** An answer that is lost is missed, or the connection is seen to break. */
  #sendResponse(machine: SimulatedProcess, resolve: () => void, refuse: () => void): void {
    if (!this.#happens(this.#faultProfile.lossRate / 2)) machine.schedule(this.#randomDelayMs(), resolve)
    else if (this.#random.chance(0.3)) refuse()
  }

  #randomDelayMs(): number {
    return this.#happens(this.#faultProfile.delayRate)
      ? this.#random.between(0, maxDelayMs)
      : this.#random.between(0.05, this.isFaultless ? 2 : this.#faultProfile.maxLatencyMs)
  }

  #happens(probability: number): boolean {
    return !this.isFaultless && this.#random.chance(probability)
  }
}

/** Most that a message takes; ms. */
export const maxDelayMs = 2_500

interface NetworkOptions {
  readonly store: LedgerStore
  readonly virtualTime: VirtualTime
  readonly random: SeededRandom
  readonly faultProfile: FaultProfile
}

/** Is told after the store has taken an ask that was sent at that time. */
type OnLeaseRequest = (machine: SimulatedProcess, ask: LeaseRequest, sent: number) => void
