import { hourLength } from '../../store/store.ts'
import type { UsageReport, UsageStore } from '../../store/store.ts'
import type { Clock } from '../clock.ts'
import { inTime } from '../in-time.ts'
import type { Log } from '../log.ts'
import type { Sheets } from './sheets.ts'

export interface OutboxOptions {
  readonly process: string
  /** Milliseconds. */
  readonly keep: number
  readonly room: number
  readonly sheets: Sheets
  readonly log: Log
}

/** Brings counts to the store, one report after the other. A report whose answer is missing is sent again as it was. */
export class Outbox {
  readonly #store: UsageStore
  readonly #clock: Clock
  readonly #process: string
  readonly #keep: number
  readonly #room: number
  readonly #sheets: Sheets
  readonly #log: Log
  /** Written and not yet answered, oldest first. */
  #reports: UsageReport[] = []
  /** Answered a moment ago: a store that loses its last writes is told them again. */
  #held: { readonly report: UsageReport; readonly until: number }[] = []
  #seq = 0
  /** The last one that was answered. */
  #answered = 0
  #hour = -1
  #sending: Promise<void> | undefined
  #isShort = false

  constructor(store: UsageStore, clock: Clock, { process, keep, room, sheets, log }: OutboxOptions) {
    this.#store = store
    this.#clock = clock
    this.#process = process
    this.#keep = Math.ceil(keep / hourLength)
    this.#room = room
    this.#sheets = sheets
    this.#log = log
  }

  /** Does the store know all? */
  get isEmpty(): boolean {
    return this.#reports.length === 0 && this.#sheets.size === 0
  }

  /** How many calls the store may not know of. */
  get calls(): number {
    const written = this.#reports.flatMap(({ counts }) => counts)
    return written.reduce((sum, { calls }) => sum + calls, this.#sheets.calls)
  }

  /** Tells the store all that it does not know yet; what it does not take now stays for the next time. Never rejects. */
  send(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined
    })
    return this.#sending
  }

  async #sendAll(): Promise<void> {
    const hour = this.#sheets.look()
    const areDone = await this.#sendWritten()
    if (areDone) this.#write(hour)
    if (!areDone || !(await this.#sendWritten())) return this.#spare()
    this.#hour = hour
    this.#isShort = false
  }

  /** False when the store did not answer; what it has not answered stays. */
  async #sendWritten(): Promise<boolean> {
    for (let report = this.#reports[0]; report !== undefined; report = this.#reports[0]) {
      if (!(await this.#reach(report))) return false
      this.#reports.shift()
    }
    return true
  }

  /** Makes reports of what was counted; an empty one each hour, so that old counts are dropped though nobody calls. */
  #write(hour: number): void {
    const counts = this.#sheets.take()
    const isDue = hour !== this.#hour
    for (let from = 0; from < counts.length || (from === 0 && isDue); from += longest) {
      const part = counts.slice(from, from + longest)
      this.#reports.push({ process: this.#process, seq: (this.#seq += 1), counts: part, keep: this.#keep })
    }
  }

  /** False when the store fails or is slow. */
  async #reach(report: UsageReport): Promise<boolean> {
    try {
      this.#learn(report, await inTime(this.#clock, this.#store.reportUsage(report)))
      return true
    } catch {
      // That the store is away is logged by the ledger, which asks it as often.
      return false
    }
  }

  #learn(report: UsageReport, had: number): void {
    if (had < this.#answered) this.#tellAgain(had)
    this.#answered = report.seq
    const now = this.#clock.monotonic()
    this.#held.push({ report, until: now + heldFor })
    this.#held = this.#held.filter(({ until }, i) => until > now && i >= this.#held.length - mostHeld)
  }

  #tellAgain(had: number): void {
    const lost = this.#held.filter(({ report }) => report.seq > had)
    this.#log.warn({ reports: lost.length }, 'the store lost what it was told: the last counts of calls are reported again')
    for (const { report } of lost) this.#sheets.putBack(report.counts)
    this.#held = []
  }

  #spare(): void {
    if (!this.#sheets.merge(this.#room) || this.#isShort) return
    this.#isShort = true
    this.#log.warn({}, 'the store has been away for long: counts of calls by hour are put together, by day they stay exact')
  }
}

/** Counts in one report: a store takes it in one step, during which others wait. */
const longest = 1_000
/** Milliseconds, and reports: what a store may lose when it loses power. */
const heldFor = 10_000
const mostHeld = 50
