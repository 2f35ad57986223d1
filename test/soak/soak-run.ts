import { setTimeout as wait } from 'node:timers/promises'
import type { CallOutcome } from '../faults/callers.ts'

const pollIntervalMs = 50

/** The state of a run, which all loads share. */
export class SoakRun {
  readonly #startMs = performance.now()
  readonly #minutes: number
  readonly outcomeCounts = { correct: 0, rejected: 0, wrong: 0 }
  /** How often each kind of load did what it does. */
  readonly eventCounts: Record<string, number> = {}
  #activeLoads = 0
  /** Set while loads are paused. */
  #resumed: Promise<void> | undefined

  constructor(minutes: number) {
    this.#minutes = minutes
  }

  get elapsedMinutes(): number {
    return (performance.now() - this.#startMs) / 60_000
  }

  isOver = (): boolean => this.elapsedMinutes >= this.#minutes

  recordOutcome = ({ kind, reason = '' }: CallOutcome): void => {
    this.outcomeCounts[kind] += 1
    if (kind === 'rejected') this.countEvent(`rejected with ${/"code":(-?\d+)/.exec(reason)?.[1]}`)
    if (kind === 'wrong') console.log(`${this.elapsedMinutes.toFixed(1)} min  wrong: ${reason}`)
  }

  countEvent(name: string): void {
    this.eventCounts[name] = (this.eventCounts[name] ?? 0) + 1
  }

  /** Takes one step after another until the run is over. */
  async repeat(step: () => Promise<void>): Promise<void> {
    this.#activeLoads += 1
    while (!this.isOver()) {
      if (this.#resumed !== undefined) {
        this.#activeLoads -= 1
        await this.#resumed
        this.#activeLoads += 1
      }
      await step()
    }
    this.#activeLoads -= 1
  }

  /** Resolves with what `measure` does while no load takes a step. */
  async withoutLoad<T>(measure: () => Promise<T>): Promise<T> {
    let resume = () => {}
    this.#resumed = new Promise<void>(resolve => {
      resume = resolve
    })
    while (this.#activeLoads > 0) await wait(pollIntervalMs)
    try {
      return await measure()
    } finally {
      this.#resumed = undefined
      resume()
    }
  }
}
