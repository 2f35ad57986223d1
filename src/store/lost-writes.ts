import { singleFlight } from '../util/async.ts'

/** A Redis that is replaced loses what its replica does not have: writes of a second, or of min-replicas-max-lag where it is cut off. */
export const repeatableMs = 30_000

/** Tells the parts of a store when one of them has found an older row than it has written: others may have lost rows that they do not look at. */
export class LostWrites {
  readonly #listeners: (() => Promise<void>)[] = []

  subscribe(repeat: () => Promise<void>): void {
    this.#listeners.push(repeat)
  }

  /** Rows are repeated once, however many were found. */
  readonly report = singleFlight(async (): Promise<void> => {
    await Promise.allSettled(this.#listeners.map(repeat => repeat()))
  })
}
