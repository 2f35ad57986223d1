import type { Clock } from '../services/clock.ts'
import { Acknowledgments } from './acknowledgments.ts'
import { PendingReplies } from './channel.ts'
import { primaryTimeoutMs } from './worker-messages.ts'
import type { NetworkChannel, NetworkMessage, WorkerChannel, WorkerMessage } from './worker-messages.ts'

/**
 * The transactions that nodes accepted from callers of one network, for the workers of this gateway: the sender is answered
 * when every worker knows, as its next call may come to any of them.
 */
export class TransactionBroadcast {
  readonly #network: string
  readonly #acknowledgments: Acknowledgments
  #count: number

  /** Counts on from `count`: a worker takes a count that it knows already for no news. */
  constructor(network: string, clock: Clock, count = 0) {
    this.#network = network
    this.#acknowledgments = new Acknowledgments(clock)
    this.#count = count
  }

  get count(): number {
    return this.#count
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

  /** Resolves when every worker knows, and the sender has been sent `transactionShared`. */
  async share(sender: WorkerChannel, id: number): Promise<void> {
    const transactions = (this.#count += 1)
    for (const worker of this.#acknowledgments.workers) worker.send({ kind: 'transaction', network: this.#network, transactions })
    await this.#acknowledgments.whenAcknowledged(transactions)
    sender.send({ kind: 'transactionShared', network: this.#network, id })
  }
}

/** What one worker knows of the transactions of one network. */
export class WorkerTransactions {
  readonly #options: NetworkChannel
  readonly #replies: PendingReplies<void>
  #version = 0
  #count = 0

  constructor(options: NetworkChannel) {
    this.#options = options
    this.#replies = new PendingReplies(options.clock)
  }

  /** See Heads.transactionVersion. */
  get version(): number {
    return this.#version
  }

  /** There is one more. */
  record(): void {
    this.#version += 1
  }

  /** Resolves, and soon, when every worker knows of the one that was recorded. */
  share(): Promise<void> {
    const { network, send } = this.#options
    return this.#replies.request(
      primaryTimeoutMs,
      id => send({ kind: 'transaction', network, id }),
      () => undefined,
    )
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    if (message.kind === 'transactionShared') return this.#replies.resolveThrough(message.id)
    if (message.kind !== 'transaction' && message.kind !== 'synced') return
    // Another count is news. It only grows while a worker tracks the network.
    if (message.transactions !== this.#count) this.#version += 1
    this.#count = message.transactions
    const { network, send } = this.#options
    if (message.kind === 'transaction') send({ kind: 'transactionAck', network, count: message.transactions })
  }
}
