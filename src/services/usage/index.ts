import { randomBytes } from 'node:crypto'
import { storeTimeoutMs } from '../../store/store.ts'
import type { UsageReport, UsageStore } from '../../store/usage-store.ts'
import { hourMs } from '../../util/dates.ts'
import { singleFlight, withTimeout } from '../../util/async.ts'
import type { Clock, Timer } from '../clock.ts'
import type { Log } from '../log.ts'
import { ReportHistory } from './report-history.ts'
import { UsageCounters } from './usage-counters.ts'
import type { CountedCall } from './usage-counters.ts'

export type { CountedCall } from './usage-counters.ts'

/** Counts of calls by account and API key. */
export interface Usage {
  /** Counts at once and in memory, without I/O; reported to the store within about a second. */
  count(call: CountedCall): void
}

interface UsageService extends Usage {
  start(): Promise<void>
  /** Reports what the store does not know yet. Safe without start(), and twice. */
  stop(): Promise<void>
}

interface UsageOptions {
  readonly log: Log
  /** The store drops older counts. */
  readonly retentionMs: number
  /** Counts (of a group in an hour) that may wait for an unavailable store; 100,000 unless given, about 20 MB. */
  readonly maxPendingCounts?: number
  /** A name that is unique to this start of this process, and that of its ledger; 64 random bits unless given. */
  readonly newProcessName?: () => string
}

/**
 * Counts the calls of this process. Each call is counted once, however often messages are lost or duplicated; a process
 * that is killed loses what it counted since its last report. While the store is unavailable, counts wait in memory. When
 * they become too many, the hours of a day are merged; sums by account, key, network, method, outcome and day stay exact.
 */
export const openUsage = (store: UsageStore, clock: Clock, options: UsageOptions): UsageService => {
  const counters = new UsageCounters(clock)
  const reporter = new UsageReporter(store, clock, counters, options)
  let timer: Timer | undefined
  let stopped: Promise<void> | undefined

  const stop = async (): Promise<void> => {
    timer?.cancel()
    reporter.end()
    for (let attempts = 0; attempts < maxStopAttempts && !reporter.isEmpty; attempts += 1) await reporter.flush()
    if (!reporter.isEmpty) {
      options.log.warn({ calls: reporter.pendingCalls }, 'store unreachable at shutdown: the usage of the last calls could not be reported')
    }
  }
  return {
    count: counters.count,
    async start() {
      timer ??= clock.every(reportIntervalMs, () => void reporter.flush())
      await reporter.flush()
    },
    stop: () => (stopped ??= stop()),
  }
}

const reportIntervalMs = 1_000
/** A lost message must not cost counts. */
const maxStopAttempts = 3

/** Reports counts to the store, one report after the other. A report without a response is sent again unchanged. */
class UsageReporter {
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
    { log, retentionMs, maxPendingCounts = 100_000, newProcessName = () => randomBytes(8).toString('hex') }: UsageOptions,
  ) {
    this.#store = store
    this.#clock = clock
    this.#counters = counters
    this.#log = log
    this.#process = newProcessName()
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
   * A report that was sent before may be in the data of the last acknowledged report, too: the store names the report itself as the last
   * one, or other data names an older one.
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
