import { storeTimeoutMs } from '../../store/store.ts'
import type { UsageReport, UsageStore } from '../../store/store.ts'
import type { Clock } from '../clock.ts'
import { withTimeout } from '../../util/with-timeout.ts'
import type { Log } from '../log.ts'
import type { UsageCounters } from './usage-counters.ts'
import { hourMs } from '../../util/dates.ts'

export interface UsageReporterOptions {
  readonly process: string
  /** Milliseconds. */
  readonly retentionMs: number
  readonly maxPendingCounts: number
  readonly counters: UsageCounters
  readonly log: Log
}

/** Brings counts to the store, one report after the other. A report whose answer is missing is sent again as it was. */
export class UsageReporter {
  readonly #store: UsageStore
  readonly #clock: Clock
  readonly #process: string
  readonly #retentionHours: number
  readonly #maxPendingCounts: number
  readonly #counters: UsageCounters
  readonly #log: Log
  /** Written and not yet answered, oldest first. */
  #unacknowledged: UsageReport[] = []
  /** Answered a moment ago: a store that loses its last writes is told them again. */
  #recentReports: { readonly report: UsageReport; readonly until: number }[] = []
  #seq = 0
  /** The last one that was answered. */
  #lastAcknowledgedSeq = 0
  #lastReportedHour = -1
  #flushing: Promise<void> | undefined
  #hasMergedHours = false

  constructor(store: UsageStore, clock: Clock, { process, retentionMs, maxPendingCounts, counters, log }: UsageReporterOptions) {
    this.#store = store
    this.#clock = clock
    this.#process = process
    this.#retentionHours = Math.ceil(retentionMs / hourMs)
    this.#maxPendingCounts = maxPendingCounts
    this.#counters = counters
    this.#log = log
  }

  /** Does the store know all? */
  get isEmpty(): boolean {
    return this.#unacknowledged.length === 0 && this.#counters.size === 0
  }

  /** How many calls the store may not know of. */
  get pendingCalls(): number {
    const written = this.#unacknowledged.flatMap(({ counts }) => counts)
    return written.reduce((sum, { calls }) => sum + calls, this.#counters.calls)
  }

  /** Tells the store all that it does not know yet; what it does not take now stays for the next time. Never rejects. */
  flush(): Promise<void> {
    this.#flushing ??= this.#flushAll().finally(() => {
      this.#flushing = undefined
    })
    return this.#flushing
  }

  async #flushAll(): Promise<void> {
    const hour = this.#counters.updateHour()
    const areDone = await this.#sendReports()
    if (areDone) this.#createReports(hour)
    if (!areDone || !(await this.#sendReports())) return this.#limitMemory()
    this.#lastReportedHour = hour
    this.#hasMergedHours = false
  }

  /** False when the store did not answer; what it has not answered stays. */
  async #sendReports(): Promise<boolean> {
    for (let report = this.#unacknowledged[0]; report !== undefined; report = this.#unacknowledged[0]) {
      if (!(await this.#sendReport(report))) return false
      this.#unacknowledged.shift()
    }
    return true
  }

  /** Makes reports of what was counted; an empty one each hour, so that old counts are dropped though nobody calls. */
  #createReports(hour: number): void {
    const counts = this.#counters.drain()
    const isDue = hour !== this.#lastReportedHour
    for (let from = 0; from < counts.length || (from === 0 && isDue); from += maxCountsPerReport) {
      const part = counts.slice(from, from + maxCountsPerReport)
      this.#unacknowledged.push({ process: this.#process, seq: (this.#seq += 1), counts: part, retentionHours: this.#retentionHours })
    }
  }

  /** False when the store fails or is slow. */
  async #sendReport(report: UsageReport): Promise<boolean> {
    try {
      this.#acknowledge(report, await withTimeout(this.#clock, storeTimeoutMs, this.#store.reportUsage(report)))
      return true
    } catch {
      // That the store is away is logged by the ledger, which asks it as often.
      return false
    }
  }

  #acknowledge(report: UsageReport, previousSeq: number): void {
    if (previousSeq < this.#lastAcknowledgedSeq) this.#restoreLostReports(previousSeq)
    this.#lastAcknowledgedSeq = report.seq
    const now = this.#clock.monotonic()
    this.#recentReports.push({ report, until: now + reportHistoryMs })
    this.#recentReports = this.#recentReports.filter(({ until }, i) => until > now && i >= this.#recentReports.length - maxReportHistory)
  }

  #restoreLostReports(previousSeq: number): void {
    const lost = this.#recentReports.filter(({ report }) => report.seq > previousSeq)
    this.#log.warn({ reports: lost.length }, 'the store lost what it was told: the last counts of calls are reported again')
    for (const { report } of lost) this.#counters.restore(report.counts)
    this.#recentReports = []
  }

  #limitMemory(): void {
    if (!this.#counters.mergeHours(this.#maxPendingCounts) || this.#hasMergedHours) return
    this.#hasMergedHours = true
    this.#log.warn({}, 'the store has been away for long: counts of calls by hour are put together, by day they stay exact')
  }
}

/** Counts in one report: a store takes it in one step, during which others wait. */
const maxCountsPerReport = 1_000
/** Milliseconds, and reports: what a store may lose when it loses power. */
const reportHistoryMs = 10_000
const maxReportHistory = 50
