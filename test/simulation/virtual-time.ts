import type { Timer } from '../../src/services/clock.ts'

/** Virtual time: what is planned happens in the order of its time, and of its planning where times are equal. */
export class VirtualTime {
  /** True time: milliseconds since 1970, UTC. */
  now: number
  /** The next one stands last. */
  readonly #scheduled: ScheduledEvent[] = []
  #isStopped = false
  readonly #onSettled: () => void

  /** `settled` is called after each thing that happened, when nothing follows from it any more. */
  constructor(now: number, settled: () => void) {
    this.now = now
    this.#onSettled = settled
  }

  after(ms: number, run: () => void): Timer {
    const planned: ScheduledEvent = { at: this.now + ms, run }
    this.#scheduled.splice(this.#indexFor(planned.at), 0, planned)
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
  async advance(ms: number): Promise<void> {
    const end = this.now + ms
    await drained()
    for (let next = this.#scheduled.at(-1); next !== undefined && next.at <= end; next = this.#scheduled.at(-1)) {
      this.#scheduled.pop()
      if (next.run === undefined) continue
      this.now = next.at
      next.run()
      await drained()
      this.#onSettled()
      if (this.#isStopped) return
    }
    this.now = end
  }

  #indexFor(at: number): number {
    let [low, high] = [0, this.#scheduled.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#scheduled[middle]?.at ?? 0) > at) low = middle + 1
      else high = middle
    }
    return low
  }
}

interface ScheduledEvent {
  readonly at: number
  /** Undefined once cancelled. */
  run: (() => void) | undefined
}

/** Node comes to its next tick when no promise is left that could go on; its loop takes three times as long. */
const drained = (): Promise<void> => new Promise(resolve => process.nextTick(resolve))
