import type { HeightBroadcast, TagState } from '../services/chain-heads/index.ts'
import { withTimeoutOr } from '../util/async.ts'
import type { MaybePromise } from '../util/async.ts'
import { getOrCreate } from '../util/memoize.ts'
import { isReply } from '../util/channel.ts'
import { ackTimeoutMs, primaryTimeoutMs } from './worker-messages.ts'
import type { NetworkChannel, Report, Reports, WorkerChannel } from './worker-messages.ts'

/**
 * What was reported to callers of one network, and that they have sent transactions, for the workers of this gateway: the next call of a caller may
 * come to any of them. Each change has a version. A worker is sent the newest, and acknowledges it; what has been acknowledged by all is shared, and may
 * be given to callers.
 *
 * A worker that does not acknowledge in time is busy. Until its next acknowledgment nothing waits for it: otherwise each block of a stopped worker's
 * network would delay callers by as much. Such a worker answers nothing about the newest block from memory before it has called `sync` (see
 * WorkerHeads.mayLag), and from then on it is waited for again.
 */
export class ReportBroadcast implements HeightBroadcast {
  readonly #network: string
  /** Those that are waited for, and those that are not. A call of `sync` replaces the entry: what was late before it does not count. */
  readonly #workers = new Map<WorkerChannel, { isResponsive: boolean }>()
  #reports: Reports
  #sharedVersion: number
  #published: Promise<void> = Promise.resolve()

  /** Counts on from what its workers know: a version that they know already is no news to them. */
  constructor(network: string, { version, transactions }: Pick<Reports, 'version' | 'transactions'> = noReports) {
    const first = version + 1
    this.#network = network
    this.#reports = { ...noReports, version: first, changed: { height: first, tags: first }, transactions }
    this.#sharedVersion = first
  }

  get reports(): Reports {
    return this.#reports
  }

  get workers(): readonly WorkerChannel[] {
    return [...this.#workers.keys()]
  }

  /** Resolves, and soon, when every worker has the height. */
  raise(height: number): Promise<void> {
    return this.#publish(version => ({ height, changed: { ...this.#reports.changed, height: version } }))
  }

  lower(height: number): void {
    void this.raise(height)
  }

  /** Workers report heights by messages. */
  subscribe(): () => void {
    return () => undefined
  }

  setTags(tags: TagState): void {
    void this.#publish(version => ({ tags, changed: { ...this.#reports.changed, tags: version } }))
  }

  /** Resolves, and soon, when every worker knows that there is one more. */
  recordTransaction(): Promise<void> {
    return this.#publish(() => ({ transactions: this.#reports.transactions + 1 }))
  }

  /** Resolves, and soon, when every worker knows all that has been reported. */
  whenShared(): Promise<void> {
    return this.#published
  }

  addWorker(worker: WorkerChannel): void {
    this.#workers.set(worker, { isResponsive: true })
    void this.#inform(worker)
    worker.send('shared', { network: this.#network, version: this.#sharedVersion })
  }

  removeWorker(worker: WorkerChannel): void {
    this.#workers.delete(worker)
  }

  /** The worker reads its messages again. */
  sync(worker: WorkerChannel, reply: () => void): void {
    if (this.#workers.has(worker)) this.#workers.set(worker, { isResponsive: true })
    reply()
  }

  #publish(changeOf: (version: number) => Partial<Reports>): Promise<void> {
    const version = this.#reports.version + 1
    this.#reports = { ...this.#reports, ...changeOf(version), version }
    return (this.#published = this.#share(version))
  }

  async #share(version: number): Promise<void> {
    await Promise.all(this.workers.map(worker => this.#inform(worker)))
    if (version <= this.#sharedVersion) return
    this.#sharedVersion = version
    for (const worker of this.workers) worker.send('shared', { network: this.#network, version })
  }

  /** Resolves when the worker has acknowledged the newest version, or is not waited for: at the latest after 50 ms. */
  async #inform(worker: WorkerChannel): Promise<void> {
    const state = this.#workers.get(worker)
    const acknowledged = worker.call('reports', { network: this.#network, reports: this.#reports }, ackTimeoutMs).then(result => {
      if (state !== undefined) state.isResponsive = result !== 'late'
    })
    if (state?.isResponsive === true) await acknowledged
  }
}

const noReports: Reports = {
  version: 0,
  height: 0,
  tags: { reported: {}, upstreams: {} },
  changed: { height: 0, tags: 0 },
  transactions: 0,
}

interface WorkerReportsOptions extends NetworkChannel {
  /** The primary knows more than this worker did. */
  onChange(reports: Reports, previous: Reports): void
}

/** What one worker knows of the reports of its network. */
export class WorkerReports {
  readonly #options: WorkerReportsOptions
  /** Reports of a block in flight, by subject, upstream, its fingerprint and block. */
  readonly #inFlight = new Map<string, Promise<number>>()
  readonly #listeners = new Set<() => void>()
  #reports = noReports
  #sharedVersion = 0

  constructor(options: WorkerReportsOptions) {
    this.#options = options
  }

  get height(): number {
    return this.#reports.height
  }

  /** A block that an upstream has answered to a caller. Calls with the same block from the same upstream share one report. */
  reportBlock(report: Report & { readonly subject: Exclude<Report['subject'], 'transaction'> }, fallback: () => number): Promise<number> {
    const { subject, upstream, fingerprint, block } = report
    const key = `${subject} ${upstream} ${fingerprint} ${block}`
    return getOrCreate(this.#inFlight, key, () => this.#report(report, fallback).finally(() => this.#inFlight.delete(key)))
  }

  async reportTransaction(): Promise<void> {
    await this.#report({ subject: 'transaction', upstream: '', block: 0 }, () => 0)
  }

  /**
   * Informs the primary. Resolves, and soon, when every worker knows: with the height that callers may be given; with `fallback()` when the primary
   * does not answer.
   */
  async #report(report: Report, fallback: () => number): Promise<number> {
    const { network, primary } = this.#options
    const result = await primary.call('report', { network, ...report }, primaryTimeoutMs)
    return isReply(result) ? result : fallback()
  }

  /** Resolves when every worker has the height, or the tags, that this one has; or after a time. */
  whenShared(what: 'height' | 'tags'): MaybePromise<void> {
    const version = this.#reports.changed[what]
    return version <= this.#sharedVersion ? undefined : this.#waitFor(version)
  }

  /** From the primary, which sends the newest again when this worker tracks other upstreams. */
  accept(reports: Reports): void {
    const previous = this.#reports
    if (reports.version <= previous.version) return
    this.#reports = reports
    this.#options.onChange(reports, previous)
  }

  /** From the primary: all workers have this version. */
  setSharedVersion(version: number): void {
    this.#sharedVersion = version
    for (const listener of this.#listeners) listener()
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
