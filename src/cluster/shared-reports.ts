import type { HeightBroadcast, TagState } from '../services/chain-heads/index.ts'
import type { Clock } from '../services/clock.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { getOrCreate } from '../util/memoize.ts'
import { Acknowledgments } from './acknowledgments.ts'
import { PendingReplies } from './channel.ts'
import { primaryTimeoutMs } from './worker-messages.ts'
import type {
  NetworkChannel,
  NetworkMessage,
  PrimaryMessage,
  Reports,
  ReportSubject,
  WorkerChannel,
  WorkerMessage,
} from './worker-messages.ts'

/**
 * What was reported to callers of one network, and that they have sent transactions, for the workers of this gateway: the next call of a caller may
 * come to any of them. Each change has a version. A worker is sent the newest, and acknowledges it; what has been acknowledged by all is shared, and may
 * be given to callers.
 */
export class ReportBroadcast implements HeightBroadcast {
  readonly #network: string
  readonly #acknowledgments: Acknowledgments
  #reports: Reports
  #sharedVersion: number

  /** Counts on from what its workers know: a version that they know already is no news to them. */
  constructor(network: string, clock: Clock, { version, transactions }: Pick<Reports, 'version' | 'transactions'> = noReports) {
    this.#network = network
    this.#acknowledgments = new Acknowledgments(clock)
    this.#reports = { ...noReports, version: version + 1, transactions }
    this.#sharedVersion = this.#reports.version
  }

  get reports(): Reports {
    return this.#reports
  }

  get workers(): readonly WorkerChannel[] {
    return this.#acknowledgments.workers
  }

  /** Resolves, and soon, when every worker has the height. */
  raise(height: number): Promise<void> {
    return this.#publish({ height })
  }

  lower(height: number): void {
    void this.#publish({ height })
  }

  /** Workers report heights by messages. */
  subscribe(): () => void {
    return () => undefined
  }

  setTags(tags: TagState): void {
    void this.#publish({ tags })
  }

  /** Resolves, and soon, when every worker knows that there is one more. */
  recordTransaction(): Promise<void> {
    return this.#publish({ transactions: this.#reports.transactions + 1 })
  }

  /** Resolves, and soon, when every worker knows all that has been reported. */
  whenShared(): Promise<void> {
    return this.#acknowledgments.whenAcknowledged(this.#reports.version)
  }

  addWorker(worker: WorkerChannel): void {
    this.#acknowledgments.addWorker(worker)
    worker.send({ kind: 'reports', network: this.#network, reports: this.#reports })
    worker.send({ kind: 'shared', network: this.#network, version: this.#sharedVersion })
  }

  removeWorker(worker: WorkerChannel): void {
    this.#acknowledgments.removeWorker(worker)
  }

  handleMessage(worker: WorkerChannel, message: WorkerMessage): void {
    if (message.kind === 'reportsAck') return this.#acknowledgments.record(worker, message.version)
    if (message.kind !== 'sync') return
    this.#acknowledgments.setResponsive(worker)
    worker.send({ kind: 'synced', network: this.#network, id: message.id, reports: this.#reports })
  }

  async #publish(change: Partial<Omit<Reports, 'version'>>): Promise<void> {
    const version = this.#reports.version + 1
    this.#reports = { ...this.#reports, ...change, version }
    this.#broadcast({ kind: 'reports', network: this.#network, reports: this.#reports })
    await this.#acknowledgments.whenAcknowledged(version)
    if (version <= this.#sharedVersion) return
    this.#sharedVersion = version
    this.#broadcast({ kind: 'shared', network: this.#network, version })
  }

  #broadcast(message: PrimaryMessage): void {
    for (const worker of this.workers) worker.send(message)
  }
}

const noReports: Reports = { version: 0, height: 0, tags: { reported: {}, upstreams: {} }, transactions: 0 }

interface WorkerReportsOptions extends NetworkChannel {
  /** The primary knows more than this worker did. */
  onChange(reports: Reports, previous: Reports): void
}

/** What one worker knows of the reports of its network. */
export class WorkerReports {
  readonly #options: WorkerReportsOptions
  /** By subject and upstream: the channel makes one report of several of them. */
  readonly #replies = new Map<string, PendingReplies<number>>()
  /** Reports of a block in flight, by subject, upstream and block. */
  readonly #inFlight = new Map<string, Promise<number>>()
  readonly #listeners = new Set<() => void>()
  #reports = noReports
  /** The versions with which this worker got the newest of each. */
  readonly #versions = { height: 0, tags: 0 }
  #sharedVersion = 0

  constructor(options: WorkerReportsOptions) {
    this.#options = options
  }

  get height(): number {
    return this.#reports.height
  }

  /** A block that an upstream has answered to a caller. Calls with the same block from the same upstream share one report. */
  reportBlock(subject: Exclude<ReportSubject, 'transaction'>, upstream: string, block: number, fallback: () => number): Promise<number> {
    const key = `${subject} ${upstream} ${block}`
    return getOrCreate(this.#inFlight, key, () =>
      this.#report(subject, upstream, block, fallback).finally(() => this.#inFlight.delete(key)),
    )
  }

  async reportTransaction(): Promise<void> {
    await this.#report('transaction', '', 0, () => 0)
  }

  /**
   * Informs the primary. Resolves, and soon, when every worker knows: with the height that callers may be given; with `fallback()` when the primary
   * does not answer.
   */
  #report(subject: ReportSubject, upstream: string, block: number, fallback: () => number): Promise<number> {
    const { network, clock, send } = this.#options
    const replies = getOrCreate(this.#replies, `${subject} ${upstream}`, () => new PendingReplies<number>(clock))
    return replies.request(primaryTimeoutMs, id => send({ kind: 'report', network, subject, upstream, block, firstId: id, id }), fallback)
  }

  /** Resolves when every worker has the height, or the tags, that this one has; or after a time. */
  whenShared(what: 'height' | 'tags'): MaybePromise<void> {
    const version = this.#versions[what]
    return version <= this.#sharedVersion ? undefined : this.#waitFor(version)
  }

  /** From the primary. */
  handleMessage(message: NetworkMessage): void {
    switch (message.kind) {
      case 'reports':
        this.#accept(message.reports)
        return this.#options.send({ kind: 'reportsAck', network: message.network, version: this.#reports.version })
      case 'synced':
        return this.#accept(message.reports)
      case 'shared':
        this.#sharedVersion = message.version
        for (const listener of this.#listeners) listener()
        return
      case 'reported':
        this.#replies.get(`${message.subject} ${message.upstream}`)?.resolveThrough(message.id, message.height, message.firstId)
    }
  }

  /** What was superseded may come after it. */
  #accept(reports: Reports): void {
    const previous = this.#reports
    if (reports.version <= previous.version) return
    this.#reports = reports
    if (reports.height !== previous.height) this.#versions.height = reports.version
    if (JSON.stringify(reports.tags) !== JSON.stringify(previous.tags)) this.#versions.tags = reports.version
    this.#options.onChange(reports, previous)
  }

  async #waitFor(version: number): Promise<void> {
    let listener = () => {}
    const shared = new Promise<void>(resolve => {
      listener = () => {
        if (this.#sharedVersion >= version) resolve()
      }
      this.#listeners.add(listener)
    })
    await withTimeoutOr(this.#options.clock, primaryTimeoutMs, shared, () => undefined)
    this.#listeners.delete(listener)
  }
}
