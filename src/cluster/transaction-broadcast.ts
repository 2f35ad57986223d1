import type { Clock } from '../services/clock.ts'
import { Acknowledgments } from './acknowledgments.ts'
import type { WorkerChannel, WorkerMessage } from './channel.ts'

/**
 * The transactions that nodes accepted from callers of one network, for the workers of this gateway: the sender is answered
 * when every worker knows, as its next call may come to any of them.
 */
export class TransactionBroadcast {
  readonly #network: string
  readonly #acknowledgments: Acknowledgments
  #transactionCount = 0

  constructor(network: string, clock: Clock) {
    this.#network = network
    this.#acknowledgments = new Acknowledgments(clock)
  }

  get transactionCount(): number {
    return this.#transactionCount
  }

  addWorker(worker: WorkerChannel): void {
    this.#acknowledgments.addWorker(worker)
  }

  removeWorker(worker: WorkerChannel): void {
    this.#acknowledgments.removeWorker(worker)
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (message.kind === 'sync') this.#acknowledgments.setResponsive(worker)
    else if (message.kind === 'transactionAck') this.#acknowledgments.record(worker, message.count)
  }

  /** Resolves when every worker knows; the sender is told so. */
  async share(sender: WorkerChannel, id: number): Promise<void> {
    const count = (this.#transactionCount += 1)
    for (const worker of this.#acknowledgments.workers) worker.send({ kind: 'transaction', network: this.#network, count })
    await this.#acknowledgments.whenAcknowledged(count)
    sender.send({ kind: 'transactionShared', network: this.#network, id })
  }
}
