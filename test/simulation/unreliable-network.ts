import type { LedgerStore } from '../../src/store/store.ts'
import type { LeaseRequest } from '../../src/store/lease-accounting.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { VirtualTime } from './virtual-time.ts'
import type { FaultProfile } from './fault-profile.ts'

/** The network between the processes and their store: loses, duplicates, delays and reorders messages. */
export class UnreliableNetwork {
  /** `silent`: requests get no response; `refusing`: they fail at once. */
  state: 'open' | 'silent' | 'refusing' = 'open'
  /** Turns off all faults. */
  isFaultless = false
  readonly #virtualTime: VirtualTime
  readonly #random: SeededRandom
  readonly #faultProfile: FaultProfile
  readonly #store: LedgerStore
  readonly #onLeaseRequest: OnLeaseRequest

  constructor({ store, virtualTime, random, faultProfile }: NetworkOptions, onLeaseRequest: OnLeaseRequest) {
    this.#store = store
    this.#virtualTime = virtualTime
    this.#random = random
    this.#faultProfile = faultProfile
    this.#onLeaseRequest = onLeaseRequest
  }

  /** The store as one process sees it. */
  storeFor(process: SimulatedProcess): LedgerStore {
    const store = this.#store
    return {
      horizonMs: store.horizonMs,
      requestLease: request => {
        const sentAt = this.#virtualTime.now
        return process.reachability.track(
          this.#transmit(process, () => {
            const response = store.requestLease(request)
            this.#onLeaseRequest(process, request, sentAt)
            return response
          }),
        )
      },
      heartbeat: name => process.reachability.track(this.#transmit(process, () => store.heartbeat(name))),
      deregister: name => this.#transmit(process, () => store.deregister(name)),
    }
  }

  #transmit<T>(process: SimulatedProcess, request: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const refuse = () => process.schedule(this.#randomDelayMs(), () => reject(new Error('connection refused')))
      const arrive = (): void => {
        if (this.state === 'refusing') return void refuse()
        if (this.state === 'silent') return
        void request().then(response => this.#sendResponse(process, () => resolve(response), refuse))
      }
      this.#send(arrive)
      if (this.#happens(this.#faultProfile.duplicationRate)) this.#send(arrive)
    })
  }

  #send(arrive: () => void): void {
    if (!this.#happens(this.#faultProfile.lossRate / 2)) this.#virtualTime.after(this.#randomDelayMs(), arrive)
  }

  /** For a lost response the process waits, or its connection breaks. */
  #sendResponse(process: SimulatedProcess, resolve: () => void, refuse: () => void): void {
    if (!this.#happens(this.#faultProfile.lossRate / 2)) process.schedule(this.#randomDelayMs(), resolve)
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

/** Of a message. */
export const maxDelayMs = 2_500

interface NetworkOptions {
  readonly store: LedgerStore
  readonly virtualTime: VirtualTime
  readonly random: SeededRandom
  readonly faultProfile: FaultProfile
}

/** Called after the store has applied a request that was sent at that time. */
type OnLeaseRequest = (process: SimulatedProcess, request: LeaseRequest, sentAt: number) => void
