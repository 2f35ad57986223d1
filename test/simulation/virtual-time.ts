import type { Timer } from '../../src/services/clock.ts'

/** Virtual time: runs events in the order of their times, and events of equal times in the order in which they were scheduled. */
export class VirtualTime {
  /** True time: milliseconds since 1970, UTC. */
  now: number
  /** The next event is the last element. */
  readonly #scheduled: ScheduledEvent[] = []
  #isStopped = false
  readonly #onSettled: () => void

  /** `onSettled` is called after each event, when no promise can go on any more. */
  constructor(now: number, onSettled: () => void) {
    this.now = now
    this.#onSettled = onSettled
  }

  after(ms: number, run: () => void): Timer {
    const event: ScheduledEvent = { at: this.now + ms, run }
    this.#scheduled.splice(this.#indexFor(event.at), 0, event)
    return {
      cancel: () => {
        event.run = undefined
      },
    }
  }

  /** No more events run. */
  stop(): void {
    this.#isStopped = true
  }

  /** Runs the events of the next `ms`. Between two events every promise that can settle does so. */
  async advance(ms: number): Promise<void> {
    const end = this.now + ms
    await drainPromises()
    for (let next = this.#scheduled.at(-1); next !== undefined && next.at <= end; next = this.#scheduled.at(-1)) {
      this.#scheduled.pop()
      if (next.run === undefined) continue
      this.now = next.at
      next.run()
      await drainPromises()
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

/** A nextTick runs when no promise can go on; a turn of the event loop takes three times as long. */
const drainPromises = (): Promise<void> => new Promise(resolve => process.nextTick(resolve))
