import type { HeightBroadcast, HeightListener } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { PrimaryMessage, WorkerChannel, WorkerMessage } from './channel.ts'

/**
 * A worker that does not acknowledge a height in time is busy, and answers no caller meanwhile. Until its next acknowledgment
 * no height waits for it: otherwise each block of a stopped worker's network would delay callers by as much.
 */
const ackTimeoutMs = 50

/** The reported height of one network, for the workers of this gateway: a caller is given it when every worker has it. */
export class WorkerHeightBroadcast implements HeightBroadcast {
  readonly #network: string
  readonly #clock: Clock
  /** Each worker, and the height that it has acknowledged. */
  readonly #acknowledged = new Map<WorkerChannel, number>()
  /** The workers that have not acknowledged a height in time. */
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
    worker.send({ kind: 'sharedHeight', network: this.#network, height: this.#sharedHeight })
  }

  removeWorker(worker: WorkerChannel): void {
    this.#acknowledged.delete(worker)
    this.#unresponsive.delete(worker)
    this.#notifyAckListeners()
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (message.kind === 'reportHeight') void this.#replyHeight(worker, message)
    if (message.kind !== 'heightAck' || !this.#acknowledged.has(worker)) return
    this.#acknowledged.set(worker, message.height)
    this.#unresponsive.delete(worker)
    this.#notifyAckListeners()
  }

  async #replyHeight(worker: WorkerChannel, { id, upstream, height }: Extract<WorkerMessage, { kind: 'reportHeight' }>): Promise<void> {
    worker.send({ kind: 'heightReported', network: this.#network, id, height: await this.#onHeight(height, upstream) })
  }

  async #whenAcknowledged(height: number): Promise<void> {
    let check = () => {}
    const acknowledged = new Promise<void>(resolve => {
      check = () => {
        if (this.#unacknowledged(height).length === 0) resolve()
      }
      this.#ackListeners.add(check)
      check()
    })
    await withTimeoutOr(this.#clock, ackTimeoutMs, acknowledged, () => {
      for (const worker of this.#unacknowledged(height)) this.#unresponsive.add(worker)
    })
    this.#ackListeners.delete(check)
  }

  /** The workers whose acknowledgments the height waits for. */
  #unacknowledged(height: number): readonly WorkerChannel[] {
    return [...this.#acknowledged].flatMap(([worker, acknowledged]) =>
      acknowledged >= height || this.#unresponsive.has(worker) ? [] : [worker],
    )
  }

  #notifyAckListeners(): void {
    for (const listener of this.#ackListeners) listener()
  }

  #publishSharedHeight(height: number): void {
    this.#sharedHeight = height
    this.#broadcast({ kind: 'sharedHeight', network: this.#network, height })
  }

  #broadcast(message: PrimaryMessage): void {
    for (const worker of this.#acknowledged.keys()) worker.send(message)
  }
}
