import type { HeightBroadcast, HeightListener } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { Acknowledgments } from './acknowledgments.ts'
import type { PrimaryMessage, WorkerChannel, WorkerMessage } from './channel.ts'

/** The reported height of one network, for the workers of this gateway: a caller is given it when every worker has it. */
export class WorkerHeightBroadcast implements HeightBroadcast {
  readonly #network: string
  readonly #acknowledgments: Acknowledgments
  #onHeight: HeightListener = height => height
  #height = 0
  #sharedHeight = 0

  constructor(network: string, clock: Clock) {
    this.#network = network
    this.#acknowledgments = new Acknowledgments(clock)
  }

  get workers(): readonly WorkerChannel[] {
    return this.#acknowledgments.workers
  }

  /** The height that callers may have been told, at most. */
  get height(): number {
    return this.#height
  }

  raise(height: number): Promise<void> | undefined {
    this.#height = height
    this.#broadcast({ kind: 'height', network: this.#network, height })
    return this.#acknowledgments.whenAcknowledged(height).then(() => {
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
    this.#acknowledgments.addWorker(worker)
    worker.send({ kind: 'height', network: this.#network, height: this.#height })
    worker.send({ kind: 'sharedHeight', network: this.#network, height: this.#sharedHeight })
  }

  removeWorker(worker: WorkerChannel): void {
    this.#acknowledgments.removeWorker(worker)
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (message.kind === 'reportHeight') void this.#replyHeight(worker, message)
    else if (message.kind === 'sync') this.#acknowledgments.setResponsive(worker)
    else if (message.kind === 'heightAck') this.#acknowledgments.record(worker, message.height)
  }

  async #replyHeight(worker: WorkerChannel, { id, upstream, height }: Extract<WorkerMessage, { kind: 'reportHeight' }>): Promise<void> {
    worker.send({ kind: 'heightReported', network: this.#network, id, height: await this.#onHeight(height, upstream) })
  }

  #publishSharedHeight(height: number): void {
    this.#sharedHeight = height
    this.#broadcast({ kind: 'sharedHeight', network: this.#network, height })
  }

  #broadcast(message: PrimaryMessage): void {
    for (const worker of this.workers) worker.send(message)
  }
}
