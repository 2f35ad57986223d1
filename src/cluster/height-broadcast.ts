import type { Clock } from '../services/clock.ts'
import type { HeightListener, HeightBroadcast } from '../services/chain-heads/index.ts'
import type { PrimaryMessage, WorkerMessage } from './messages.ts'

/** A worker that heads are lent to. */
export interface WorkerChannel {
  send(message: PrimaryMessage): void
}

/**
 * ms that a worker is waited for: one that is busy for longer tells nobody anything meanwhile. It is not waited for again
 * until it says what it has seen: else one that is stopped would cost callers as much with each block.
 */
const ackTimeoutMs = 50

/** The height of one network over the workers of this gateway: told by none before it is known to all. */
export class WorkerHeightBroadcast implements HeightBroadcast {
  readonly #network: string
  readonly #clock: Clock
  /** Each worker, and the height that it has seen. */
  readonly #acknowledged = new Map<WorkerChannel, number>()
  /** Those who were waited for in vain. */
  readonly #unresponsive = new Set<WorkerChannel>()
  readonly #ackListeners = new Set<() => void>()
  #onHeight: HeightListener = height => height
  #height = 0
  #sharedHeight = 0

  constructor(network: string, clock: Clock) {
    this.#network = network
    this.#clock = clock
  }

  get workers(): readonly WorkerChannel[] {
    return [...this.#acknowledged.keys()]
  }

  raise(height: number): Promise<void> | undefined {
    this.#height = height
    this.#broadcast({ kind: 'height', network: this.#network, height })
    return this.#whenAcknowledged(height).then(() => {
      if (height > this.#sharedHeight && height <= this.#height) this.#publishSharedHeight(height)
    })
  }

  lower(height: number): void {
    this.#height = height
    this.#broadcast({ kind: 'height', network: this.#network, height })
    this.#publishSharedHeight(height)
  }

  subscribe(listener: HeightListener): void {
    this.#onHeight = listener
  }

  addWorker(worker: WorkerChannel): void {
    this.#acknowledged.set(worker, 0)
    worker.send({ kind: 'height', network: this.#network, height: this.#height })
    worker.send({ kind: 'shared', network: this.#network, height: this.#sharedHeight })
  }

  removeWorker(worker: WorkerChannel): void {
    this.#acknowledged.delete(worker)
    this.#unresponsive.delete(worker)
    this.#notifyAckListeners()
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (message.kind === 'tell') void this.#replyHeight(worker, message)
    if (message.kind !== 'seen' || !this.#acknowledged.has(worker)) return
    this.#acknowledged.set(worker, message.height)
    this.#unresponsive.delete(worker)
    this.#notifyAckListeners()
  }

  async #replyHeight(worker: WorkerChannel, { id, upstream, height }: Extract<WorkerMessage, { kind: 'tell' }>): Promise<void> {
    worker.send({ kind: 'told', network: this.#network, id, height: await this.#onHeight(height, upstream) })
  }

  #whenAcknowledged(height: number): Promise<void> {
    return new Promise(resolve => {
      const settle = () => {
        timer.cancel()
        this.#ackListeners.delete(check)
        resolve()
      }
      const check = () => {
        if (this.#unacknowledged(height).length === 0) settle()
      }
      const timer = this.#clock.after(ackTimeoutMs, () => {
        for (const member of this.#unacknowledged(height)) this.#unresponsive.add(member)
        settle()
      })
      this.#ackListeners.add(check)
      check()
    })
  }

  /** Those who are waited for. */
  #unacknowledged(height: number): readonly WorkerChannel[] {
    return [...this.#acknowledged].flatMap(([member, seen]) => (seen >= height || this.#unresponsive.has(member) ? [] : [member]))
  }

  #notifyAckListeners(): void {
    for (const look of this.#ackListeners) look()
  }

  #publishSharedHeight(height: number): void {
    this.#sharedHeight = height
    this.#broadcast({ kind: 'shared', network: this.#network, height })
  }

  #broadcast(message: PrimaryMessage): void {
    for (const member of this.#acknowledged.keys()) member.send(message)
  }
}
