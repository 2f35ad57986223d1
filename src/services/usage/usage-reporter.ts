import { randomBytes } from 'node:crypto'
import { storeTimeoutMs } from '../../store/store.ts'
import type { UsageReport, UsageStore } from '../../store/usage-store.ts'
import { singleFlight, withTimeout } from '../../util/async.ts'
import { hourMs } from '../../util/dates.ts'
import type { Clock } from '../clock.ts'
import type { Log } from '../log.ts'
import type { UsageCounters } from './usage-counters.ts'

export interface UsageReporterOptions {
  readonly log: Log
  /** The store drops older counts. */
  readonly retentionMs: number
  /** Counts (of a group in an hour) that may wait for an unavailable store; 100,000 unless given, about 20 MB. */
  readonly maxPendingCounts?: number
  /** A name that is unique to this start of this process, and that of its ledger; 64 random bits unless given. */
  readonly process?: string
}

/** Reports counts to the store, one report after the other. A report without a response is sent again unchanged. */
export class UsageReporter {
  readonly #store: UsageStore
  readonly #clock: Clock
  readonly #counters: UsageCounters
  readonly #log: Log
  readonly #process: string
  readonly #retentionHours: number
  readonly #maxPendingCounts: number
  /** Oldest first. */
  #unacknowledged: UsageReport[] = []
  /** A store that loses its last writes gets them again. */
  readonly #history = new ReportHistory()
  #seq = 0
  #lastAcknowledgedSeq = 0
  /** The last report that was sent without an acknowledgment. */
  #unansweredSeq = 0
  #lastReportedHour = -1
  #isEnding = false
  #hasFinalReport = false
  #hasMergedHours = false

  constructor(
    store: UsageStore,
    clock: Clock,
    counters: UsageCounters,
    { log, retentionMs, maxPendingCounts = 100_000, process = randomBytes(8).toString('hex') }: UsageReporterOptions,
  ) {
    this.#store = store
    this.#clock = clock
    this.#counters = counters
    this.#log = log
    this.#process = process
    this.#retentionHours = Math.ceil(retentionMs / hourMs)
    this.#maxPendingCounts = maxPendingCounts
  }

  /** True when the store has acknowledged every count, and that there will be no more. */
  get isEmpty(): boolean {
    return this.#unacknowledged.length === 0 && this.#counters.size === 0 && !this.#needsFinalReport
  }

  /** No call is counted any more: the next report is the last one. */
  end(): void {
    this.#isEnding = true
  }

  /** A process that is not in the store need not be deregistered. */
  get #needsFinalReport(): boolean {
    return this.#isEnding && !this.#hasFinalReport && this.#seq > 0
  }

  /** Calls that the store may not know of. */
  get pendingCalls(): number {
    const counts = this.#unacknowledged.flatMap(report => report.counts)
    return counts.reduce((sum, { calls }) => sum + calls, this.#counters.calls)
  }

  /** Reports all counts; those that the store does not acknowledge stay for the next flush. Never rejects. */
  readonly flush = singleFlight(async (): Promise<void> => {
    const hour = this.#counters.updateHour()
    const isAcknowledged = await this.#sendReports()
    if (isAcknowledged) this.#createReports(hour)
    if (!isAcknowledged || !(await this.#sendReports())) return this.#limitMemory()
    this.#lastReportedHour = hour
    this.#hasMergedHours = false
  })

  /** False at the first report that the store does not acknowledge. */
  async #sendReports(): Promise<boolean> {
    for (let report = this.#unacknowledged[0]; report !== undefined; report = this.#unacknowledged[0]) {
      if (!(await this.#sendReport(report))) return false
      this.#unacknowledged.shift()
    }
    return true
  }

  /** Drains the counters. An empty report is made each hour, so that the store drops old counts even without calls. */
  #createReports(hour: number): void {
    const counts = this.#counters.drain()
    const isDue = hour !== this.#lastReportedHour || this.#needsFinalReport
    for (let from = 0; from < counts.length || (from === 0 && isDue); from += maxCountsPerReport) {
      const part = counts.slice(from, from + maxCountsPerReport)
      const isFinal = this.#isEnding && from + maxCountsPerReport >= counts.length
      const report = { process: this.#process, seq: (this.#seq += 1), counts: part, retentionHours: this.#retentionHours, isFinal }
      this.#unacknowledged.push(report)
      this.#hasFinalReport ||= isFinal
    }
  }

  /** False when the store fails or times out. */
  async #sendReport(report: UsageReport): Promise<boolean> {
    try {
      this.#acknowledge(report, await withTimeout(this.#clock, storeTimeoutMs, this.#store.reportUsage(report)))
      return true
    } catch {
      this.#unansweredSeq = report.seq
      // The ledger, which asks the store as often, logs outages.
      return false
    }
  }

  /**
   * A report that was sent before may also be in the data of the last acknowledged report, behind that one, while other data names an
   * older one.
   */
  #acknowledge(report: UsageReport, previousSeq: number): void {
    if (previousSeq < this.#lastAcknowledgedSeq) this.#repeatLostReports(previousSeq)
    const isResent = report.seq === this.#unansweredSeq
    this.#history.record(report, isResent ? this.#lastAcknowledgedSeq : previousSeq, this.#clock.monotonic())
    this.#lastAcknowledgedSeq = report.seq
  }

  #repeatLostReports(previousSeq: number): void {
    const lost = this.#history.takeMissing(previousSeq)
    this.#log.warn({ reports: lost.length }, 'store lost its last writes: recent usage is reported again')
    for (const each of lost) this.#unacknowledged.push({ ...this.#history.repeat(each, (this.#seq += 1)), isFinal: this.#hasFinalReport })
  }

  #limitMemory(): void {
    if (!this.#counters.mergeHours(this.#maxPendingCounts) || this.#hasMergedHours) return
    this.#hasMergedHours = true
    this.#log.warn({}, 'store still unreachable: pending usage is merged across hours; sums by day stay exact')
  }
}

/** A store takes a report in one atomic step, during which other processes wait. */
const maxCountsPerReport = 1_000

/** Counts that the store has acknowledged, and the reports that they were in: a second one where the store had lost the first. */
interface SentCounts {
  readonly report: UsageReport
  readonly seqs: readonly number[]
  readonly until: number
}

/**
 * The reports that the store has acknowledged lately. A store may lose its last writes; or the address of the store may lead to other data,
 * and later back to the first. What a store has is known by the last report that it has: each report was acknowledged with the one
 * before it in the same data.
 */
class ReportHistory {
  /** Oldest first. */
  #sent: SentCounts[] = []
  /** Reports that were made because a store had lost others, until they are acknowledged: by seq, the reports of the same counts. */
  readonly #repeated = new Map<number, readonly number[]>()
  /** The report before a report in the same data, by seq. */
  readonly #previousSeqs = new Map<number, number>()

  record(report: UsageReport, previousSeq: number, now: number): void {
    const repeated = this.#repeated.get(report.seq) ?? []
    this.#repeated.delete(report.seq)
    this.#previousSeqs.set(report.seq, previousSeq)
    this.#sent.push({ report, seqs: [...repeated, report.seq], until: now + historyRetentionMs })
    this.#sent = this.#sent.filter(({ until }, i) => until > now && i >= this.#sent.length - maxReports)
    for (const seq of this.#previousSeqs.keys()) {
      if (this.#previousSeqs.size <= maxPreviousSeqs) break
      this.#previousSeqs.delete(seq)
    }
  }

  /** Takes out what data whose last report is `lastSeq` does not have. Each of these reports is to be repeated with repeat(). */
  takeMissing(lastSeq: number): readonly SentCounts[] {
    const includes = this.#seqsUpTo(lastSeq)
    const missing = this.#sent.filter(({ seqs }) => !seqs.some(includes))
    this.#sent = this.#sent.filter(({ seqs }) => seqs.some(includes))
    return missing
  }

  /** The same counts, in a new report. */
  repeat({ report, seqs }: SentCounts, seq: number): UsageReport {
    this.#repeated.set(seq, seqs)
    return { ...report, seq }
  }

  /** Whether data whose last report is `lastSeq` has a report. Those before the oldest that is known of are taken to be in all data. */
  #seqsUpTo(lastSeq: number): (seq: number) => boolean {
    const known = new Set<number>()
    let oldest = lastSeq
    for (let seq: number | undefined = lastSeq; seq !== undefined; seq = this.#previousSeqs.get(seq)) {
      known.add(seq)
      oldest = seq
    }
    return seq => seq <= oldest || known.has(seq)
  }
}

/** The writes that a store may lose in a power failure. */
const historyRetentionMs = 10_000
const maxReports = 50
/** Of the reports in the history, and of those before them on other data. */
const maxPreviousSeqs = 500
