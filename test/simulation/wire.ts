import type { LedgerStore } from '../../src/store/store.ts'
import type { Ask } from '../../src/store/lease.ts'
import type { Machine } from './machine.ts'
import type { Random } from './random.ts'
import type { Timeline } from './timeline.ts'
import type { Weather } from './weather.ts'

/** What lies between the processes and their store: it loses, doubles, delays and reorders. */
export class Wire {
  /** `silent`: whoever asks hears nothing; `refusing`: they hear so at once. */
  state: 'open' | 'silent' | 'refusing' = 'open'
  /** None of the faults below any more. */
  isCalm = false
  readonly #timeline: Timeline
  readonly #random: Random
  readonly #weather: Weather
  readonly #store: LedgerStore
  readonly #asked: Asked

  constructor({ store, timeline, random, weather }: Surroundings, asked: Asked) {
    this.#store = store
    this.#timeline = timeline
    this.#random = random
    this.#weather = weather
    this.#asked = asked
  }

  /** The store as one process sees it. */
  from(machine: Machine): LedgerStore {
    const store = this.#store
    return {
      horizon: store.horizon,
      ask: ask => {
        const sent = this.#timeline.now
        return machine.contact.follow(
          this.#carry(machine, () => {
            const answer = store.ask(ask)
            this.#asked(machine, ask, sent)
            return answer
          }),
        )
      },
      beat: process => machine.contact.follow(this.#carry(machine, () => store.beat(process))),
      leave: process => this.#carry(machine, () => store.leave(process)),
      totals: (account, day) => store.totals(account, day),
    }
  }

  #carry<T>(machine: Machine, question: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const refuse = () => machine.wake(this.#delay(), () => reject(new Error('connection refused')))
      const arrive = (): void => {
        if (this.state === 'refusing') return void refuse()
        if (this.state === 'silent') return
        void question().then(answer => this.#answer(machine, () => resolve(answer), refuse))
      }
      this.#send(arrive)
      if (this.#happens(this.#weather.doubled)) this.#send(arrive)
    })
  }

  #send(arrive: () => void): void {
    if (!this.#happens(this.#weather.lost / 2)) this.#timeline.after(this.#delay(), arrive)
  }

  /** An answer that is lost is missed, or the connection is seen to break. */
  #answer(machine: Machine, resolve: () => void, refuse: () => void): void {
    if (!this.#happens(this.#weather.lost / 2)) machine.wake(this.#delay(), resolve)
    else if (this.#random.chance(0.3)) refuse()
  }

  #delay(): number {
    return this.#happens(this.#weather.late)
      ? this.#random.between(0, latest)
      : this.#random.between(0.05, this.isCalm ? 2 : this.#weather.delay)
  }

  #happens(probability: number): boolean {
    return !this.isCalm && this.#random.chance(probability)
  }
}

/** Most that a message takes; ms. */
export const latest = 2_500

interface Surroundings {
  readonly store: LedgerStore
  readonly timeline: Timeline
  readonly random: Random
  readonly weather: Weather
}

/** Is told after the store has taken an ask that was sent at that time. */
type Asked = (machine: Machine, ask: Ask, sent: number) => void
