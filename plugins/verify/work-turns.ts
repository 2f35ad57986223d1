import { setImmediate } from 'node:timers/promises'

/** Work in steps: each yields how many bytes it has gone through. */
export type Steps<T> = Generator<number, T, undefined>

/** Bytes that one turn of the event loop goes through: parsing, encoding and hashing them takes 2 to 10 ms. */
const maxBytesPerTurn = 262_144

/** Does work that takes long in turns of the event loop, one a turn, whoever waits for them: other calls go on meanwhile. */
export class WorkTurns {
  #last: Promise<void> = Promise.resolve()

  async run<T>(steps: Steps<T>): Promise<T> {
    let bytes = 0
    for (;;) {
      const step = steps.next()
      if (step.done === true) return step.value
      bytes += step.value
      if (bytes < maxBytesPerTurn) continue
      bytes = 0
      await this.next()
    }
  }

  /** Resolves in a turn of its own. */
  next(): Promise<void> {
    this.#last = this.#last.then(() => setImmediate())
    return this.#last
  }
}

/** For work that is short. */
export const runAtOnce = <T>(steps: Steps<T>): T => {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}
