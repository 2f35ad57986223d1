import { maxRefreshMs } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { Acknowledgments } from './acknowledgments.ts'
import { PendingReplies } from './channel.ts'
import { primaryTimeoutMs } from './worker-messages.ts'
import type { NetworkChannel, NetworkMessage, TransactionCounts, WorkerChannel, WorkerMessage } from './worker-messages.ts'

/**
 * The transactions that nodes accepted from callers of one network, for the workers of this gateway: the sender is answered
 * when every worker knows, as its next call may come to any of them.
 */
export class TransactionBroadcast {
  readonly #network: string
  readonly #acknowledgments: Acknowledgments
  #counts: TransactionCounts

  /** Counts on from `counts`: a worker takes counts that it knows already for no news. */
  constructor(network: string, clock: Clock, counts: TransactionCounts = { transactions: 0, nodeChanges: 0 }) {
    this.#network = network
    this.#acknowledgments = new Acknowledgments(clock)
    this.#counts = counts
  }

  get counts(): TransactionCounts {
    return this.#counts
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
  async share(sender: WorkerChannel, id: number, changesNode: boolean): Promise<void> {
    const counts = { transactions: this.#counts.transactions + 1, nodeChanges: this.#counts.nodeChanges + (changesNode ? 1 : 0) }
    this.#counts = counts
    for (const worker of this.#acknowledgments.workers) worker.send({ kind: 'transaction', network: this.#network, ...counts })
    await this.#acknowledgments.whenAcknowledged(counts.transactions)
    sender.send({ kind: 'transactionShared', network: this.#network, id })
  }
}

interface WorkerTransactionsOptions extends NetworkChannel {
  /** The state of a node may be another without a new block. */
  onNodeChange(): void
}

/** What one worker knows of the transactions of one network. */
export class WorkerTransactions {
  readonly #options: WorkerTransactionsOptions
  readonly #replies: PendingReplies<void>
  #version = 0
  #counts: TransactionCounts = { transactions: 0, nodeChanges: 0 }

  constructor(options: WorkerTransactionsOptions) {
    this.#options = options
    this.#replies = new PendingReplies(options.clock)
  }

  /** See Heads.transactionVersion. */
  get version(): number {
    return this.#version
  }

  /** There is one more. */
  record(changesNode = false): void {
    this.#version += 1
    if (changesNode) this.#options.onNodeChange()
  }

  /** Resolves, and soon, when every worker knows of the one that was recorded; after a rewind also when the upstreams have been polled. */
  share({ changesNode = false, isRewind = false }): Promise<void> {
    const { network, send } = this.#options
    return this.#replies.request(
      isRewind ? maxRefreshMs : primaryTimeoutMs,
      id => send({ kind: 'transaction', network, id, changesNode, isRewind }),
      () => undefined,
    )
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    if (message.kind === 'transactionShared') return this.#replies.resolveThrough(message.id)
    if (message.kind !== 'transaction' && message.kind !== 'synced') return
    this.#setCounts(message)
    const { network, send } = this.#options
    if (message.kind === 'transaction') send({ kind: 'transactionAck', network, count: message.transactions })
  }

  /** Other counts are news. They only grow while a worker tracks the network. */
  #setCounts({ transactions, nodeChanges }: TransactionCounts): void {
    if (transactions !== this.#counts.transactions) this.#version += 1
    if (nodeChanges !== this.#counts.nodeChanges) this.#options.onNodeChange()
    this.#counts = { transactions, nodeChanges }
  }
}
