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
  #seq = 0
  #lastReportedHour = -1
  #countsPerFlush = 0
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

  /**
   * Reports the counts, and of many a part, so that each is reported within ten flushes; those that the store does not acknowledge stay for the next
   * flush. Never rejects.
   */
  readonly flush = singleFlight(async (): Promise<void> => {
    const hour = this.#counters.updatePeriod()
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

  /** An empty report is made each hour, so that the store drops old counts even without calls. */
  #createReports(hour: number): void {
    this.#countsPerFlush = Math.max(maxCountsPerReport, this.#countsPerFlush, Math.ceil(this.#counters.size / maxFlushes))
    const counts = this.#counters.drain(this.#isEnding ? Infinity : this.#countsPerFlush)
    if (this.#counters.size === 0) this.#countsPerFlush = 0
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
      const { lostWrites } = await withTimeout(this.#clock, storeTimeoutMs, this.#store.reportUsage(report))
      if (lostWrites !== 'none')
        this.#log.warn({}, `store lost its last writes: usage that was counted in them is ${lostUsage[lostWrites]}`)
      return true
    } catch {
      // The ledger, which asks the store as often, logs outages.
      return false
    }
  }

  #limitMemory(): void {
    if (!this.#counters.mergePeriods(this.#maxPendingCounts) || this.#hasMergedHours) return
    this.#hasMergedHours = true
    this.#log.warn({}, 'store still unreachable: pending usage is merged across hours; sums by day stay exact')
  }
}

const lostUsage = { repeated: 'reported again', missing: 'missing from statistics' } as const

/** A store takes a report in one atomic step, during which other processes wait, and with LMDB the calls of this one: 6 ms. */
export const maxCountsPerReport = 200
/** With more counts than in a report, a count waits for so many flushes at most: with many accounts, several calls of each are reported together. */
export const maxFlushes = 10
