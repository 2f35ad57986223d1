import type { UsageReport } from '../../store/usage-store.ts'

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
export class ReportHistory {
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
    this.#sent.push({ report, seqs: [...repeated, report.seq], until: now + retentionMs })
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
const retentionMs = 10_000
const maxReports = 50
/** Of the reports in the history, and of those before them on other data. */
const maxPreviousSeqs = 500
