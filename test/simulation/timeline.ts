import type { Timer } from '../../src/services/clock.ts'

/** Virtual time: what is planned happens in the order of its time, and of its planning where times are equal. */
export class Timeline {
  /** True time: milliseconds since 1970, UTC. */
  now: number
  /** The next one stands last. */
  readonly #planned: Planned[] = []
  #isStopped = false
  readonly #settled: () => void

  /** `settled` is called after each thing that happened, when nothing follows from it any more. */
  constructor(now: number, settled: () => void) {
    this.now = now
    this.#settled = settled
  }

  after(ms: number, run: () => void): Timer {
    const planned: Planned = { at: this.now + ms, run }
    this.#planned.splice(this.#placeOf(planned.at), 0, planned)
    return {
      cancel: () => {
        planned.run = undefined
      },
    }
  }

  /** Nothing happens any more. */
  stop(): void {
    this.#isStopped = true
  }

  /** Time passes. Between two things that were planned, every promise that can settle does so. */
  async pass(ms: number): Promise<void> {
    const end = this.now + ms
    await drained()
    for (let next = this.#planned.at(-1); next !== undefined && next.at <= end; next = this.#planned.at(-1)) {
      this.#planned.pop()
      if (next.run === undefined) continue
      this.now = next.at
      next.run()
      await drained()
      this.#settled()
      if (this.#isStopped) return
    }
    this.now = end
  }

  #placeOf(at: number): number {
    let [low, high] = [0, this.#planned.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#planned[middle]?.at ?? 0) > at) low = middle + 1
      else high = middle
    }
    return low
  }
}

interface Planned {
  readonly at: number
  /** Undefined once cancelled. */
  run: (() => void) | undefined
}

/** Node comes to its next tick when no promise is left that could go on; its loop takes three times as long. */
const drained = (): Promise<void> => new Promise(resolve => process.nextTick(resolve))
