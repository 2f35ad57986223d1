import type { AcceptedConnections } from '../runtime/connection-handover.ts'
import type { Clock, Timer } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { WorkerChannel } from './worker-messages.ts'

/** Workers wait so long for one that is busy or stopped. */
const maxWaitMs = 1000
/** The last connections are to be handed over within this time; a stopped worker may keep one for longer. */
const handoverTimeoutMs = 500

interface ListeningEndOptions {
  readonly connections: Pick<AcceptedConnections, 'endListening'>
  /** Those that serve. */
  readonly workers: () => Iterable<WorkerChannel>
  readonly clock: Clock
}

/**
 * Ends listening for all workers at once: while one of them still listened, the primary would go on accepting connections, and reset those that
 * nobody takes. Workers serve what they have been handed over after that.
 */
export class ListeningEnd {
  readonly #options: ListeningEndOptions
  /** How to reply to the workers that wait for the end. */
  readonly #waiting = new Map<WorkerChannel, () => void>()
  #deadline: Timer | undefined
  #ending: Promise<void> | undefined

  constructor(options: ListeningEndOptions) {
    this.#options = options
  }

  /** The worker holds new connections, and has seen none for a while. Replied once none follows. */
  add(worker: WorkerChannel, reply: () => void): void {
    this.#waiting.set(worker, reply)
    this.#deadline ??= this.#options.clock.after(maxWaitMs, () => void this.#end())
    this.checkWorkers()
  }

  /** To be called when a worker has exited: the others may have waited for it alone. */
  checkWorkers(): void {
    if (this.#waiting.size === 0) return
    if (this.#ending !== undefined || [...this.#options.workers()].every(worker => this.#waiting.has(worker))) void this.#end()
  }

  async #end(): Promise<void> {
    this.#deadline?.cancel()
    const { connections, clock } = this.#options
    await (this.#ending ??= withTimeoutOr(clock, handoverTimeoutMs, connections.endListening(), () => undefined))
    for (const reply of this.#waiting.values()) reply()
    this.#waiting.clear()
  }
}
