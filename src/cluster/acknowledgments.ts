import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import { ackTimeoutMs } from './worker-messages.ts'
import type { WorkerChannel } from './worker-messages.ts'

/**
 * The workers of a network, and the number that each has acknowledged of something that every worker must know. A worker that
 * does not acknowledge in time is busy. Until its next acknowledgment nothing waits for it: otherwise each block of a stopped
 * worker's network would delay callers by as much. Such a worker answers nothing about the newest block from memory before it
 * has sent `sync` (see WorkerHeads.mayLag), and from then on it is waited for again.
 */
export class Acknowledgments {
  readonly #clock: Clock
  readonly #acknowledged = new Map<WorkerChannel, number>()
  /** The workers that have not acknowledged a number in time. */
  readonly #unresponsive = new Set<WorkerChannel>()
  readonly #listeners = new Set<() => void>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get workers(): readonly WorkerChannel[] {
    return [...this.#acknowledged.keys()]
  }

  addWorker(worker: WorkerChannel): void {
    this.#acknowledged.set(worker, 0)
  }

  removeWorker(worker: WorkerChannel): void {
    this.#acknowledged.delete(worker)
    this.#unresponsive.delete(worker)
    this.#notifyListeners()
  }

  /** The worker reads its messages again. */
  setResponsive(worker: WorkerChannel): void {
    this.#unresponsive.delete(worker)
  }

  record(worker: WorkerChannel, acknowledged: number): void {
    if (!this.#acknowledged.has(worker)) return
    this.#acknowledged.set(worker, acknowledged)
    this.#unresponsive.delete(worker)
    this.#notifyListeners()
  }

  /** Resolves when every worker has acknowledged this number or a greater one, at the latest after 50 ms. */
  async whenAcknowledged(expected: number): Promise<void> {
    let check = () => {}
    const acknowledged = new Promise<void>(resolve => {
      check = () => {
        if (this.#missing(expected).length === 0) resolve()
      }
      this.#listeners.add(check)
      check()
    })
    await withTimeoutOr(this.#clock, ackTimeoutMs, acknowledged, () => {
      for (const worker of this.#missing(expected)) this.#unresponsive.add(worker)
    })
    this.#listeners.delete(check)
  }

  /** The workers whose acknowledgments are waited for. */
  #missing(expected: number): readonly WorkerChannel[] {
    return [...this.#acknowledged].flatMap(([worker, acknowledged]) =>
      acknowledged >= expected || this.#unresponsive.has(worker) ? [] : [worker],
    )
  }

  #notifyListeners(): void {
    for (const listener of this.#listeners) listener()
  }
}
