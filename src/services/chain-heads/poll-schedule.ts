import type { Clock, Timer } from '../clock.ts'

/** Rounds end when no call has come for so long, in ms. */
const idleTimeoutMs = 30_000

/** ms between rounds. */
export const pollIntervalMsFor = (blockTime: number): number => Math.min(5000, Math.max(250, blockTime / 2))

export interface PollScheduleOptions {
  readonly clock: Clock
  readonly pollIntervalMs: number
  /** One round: all nodes are asked. */
  poll(): void
  /** Calls have ceased. */
  onIdle(): void
}

/** When nodes are polled: at once when the first call comes, and then for as long as calls come in. */
export class PollSchedule {
  readonly #options: PollScheduleOptions
  #timer: Timer | undefined
  /** ms of rounds since the last call. */
  #idleMs = 0

  constructor(options: PollScheduleOptions) {
    this.#options = options
  }

  /** A call has come. */
  recordActivity(): void {
    this.#idleMs = 0
    if (this.#timer === undefined) this.#runRound()
  }

  /** Until the next call. */
  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #runRound(): void {
    const { clock, pollIntervalMs, poll, onIdle } = this.#options
    this.#timer = undefined
    if (this.#idleMs > idleTimeoutMs) return onIdle()
    this.#idleMs += pollIntervalMs
    this.#timer = clock.after(pollIntervalMs, () => this.#runRound())
    poll()
  }
}
