import type { HeightBroadcast, HeightListener } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { ackTimeoutMs } from './worker-messages.ts'
import type { PrimaryMessage, TransactionCounts, WorkerChannel, WorkerMessage } from './worker-messages.ts'
import { withTimeoutOr } from '../util/async.ts'

/**
 * The workers of a network, and the number that each has acknowledged of something that every worker must know. A worker that
 * does not acknowledge in time is busy. Until its next acknowledgment nothing waits for it: otherwise each block of a stopped
 * worker's network would delay callers by as much. Such a worker answers nothing about the newest block from memory before it
 * has sent `sync` (see WorkerHeads.mayLag), and from then on it is waited for again.
 */
class Acknowledgments {
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

  /** The greatest height that callers may have been given. */
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
