import type { Clock } from '../../src/services/clock.ts'
import { applyLeaseRequest, emptyLeaseRecord } from '../../src/store/lease-accounting.ts'
import type { LeaseRequest, LeaseRecord } from '../../src/store/lease-accounting.ts'
import { processTimeoutMs } from '../../src/store/store.ts'
import type {
  LeaseResponse,
  LedgerStore,
  StoreDay,
  HeartbeatResponse,
  DayTotals,
  UsageCount,
  UsageReport,
  UsageStore,
} from '../../src/store/store.ts'
import { dayMs, hourMs } from '../../src/util/dates.ts'

interface LedgerDay {
  leased: number
  readonly records: Map<string, LeaseRecord>
}

/** The ledger of a store without a disk. It passes the contract, and a network can be put before it. */
export class InMemoryLedgerStore implements LedgerStore {
  readonly horizonMs = 1_000
  readonly #clock: Clock
  #days = new Map<string, LedgerDay>()
  #heartbeats = new Map<string, number>()
  #latestDay = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async requestLease(ask: LeaseRequest): Promise<LeaseResponse> {
    const now = this.#advanceDay()
    const day = this.#day(ask.day, ask.account)
    const booking = applyLeaseRequest(day.leased, day.records.get(ask.process) ?? emptyLeaseRecord, ask, now.today)
    day.leased = booking.leased
    day.records.set(ask.process, booking.record)
    return { ...now, counters: booking.record, remaining: ask.limit - booking.leased }
  }

  async heartbeat(process: string): Promise<HeartbeatResponse> {
    this.#heartbeats.set(process, this.#clock.now())
    for (const each of this.#heartbeats.keys()) if (!this.#isAlive(each)) this.#heartbeats.delete(each)
    return { ...this.#advanceDay(), liveProcesses: this.#heartbeats.size }
  }

  async deregister(process: string): Promise<void> {
    this.#heartbeats.delete(process)
  }

  dayTotals(account: string, named?: number): DayTotals {
    const now = this.#advanceDay()
    const day = named ?? now.today
    const { leased, records: leaseRecords } = this.#day(day, account)
    const sums = { used: 0, held: 0, forfeited: 0 }
    for (const [process, { granted, returned, used }] of leaseRecords) {
      sums.used += used
      sums[this.#isAlive(process) ? 'held' : 'forfeited'] += granted - returned - used
    }
    return { ...now, day, leased, ...sums }
  }

  /** What is on record, by process. */
  entries(account: string, day: number): ReadonlyMap<string, LeaseRecord> {
    return this.#day(day, account).records
  }

  /** Keeps all that is known now. Returns how to put it back. */
  backup(): () => void {
    const snapshot = structuredClone({ days: this.#days, lives: this.#heartbeats, latest: this.#latestDay })
    return () => {
      this.#days = structuredClone(snapshot.days)
      this.#heartbeats = structuredClone(snapshot.lives)
      this.#latestDay = snapshot.latest
    }
  }

  #advanceDay(): StoreDay {
    const now = this.#clock.now()
    if (now >= (this.#latestDay + 1) * dayMs) {
      this.#latestDay = Math.floor(now / dayMs)
      for (const key of this.#days.keys()) if (Number.parseInt(key, 10) <= this.#latestDay - 3) this.#days.delete(key)
    }
    return { today: this.#latestDay, endsInMs: (this.#latestDay + 1) * dayMs - now }
  }

  #day(day: number, account: string): LedgerDay {
    const key = `${day} ${account}`
    const found = this.#days.get(key) ?? { leased: 0, records: new Map() }
    this.#days.set(key, found)
    return found
  }

  #isAlive(process: string): boolean {
    return Math.abs(this.#clock.now() - (this.#heartbeats.get(process) ?? -Infinity)) <= processTimeoutMs
  }
}

/** Counts of calls without a disk; the same contract. */
export class InMemoryUsageStore implements UsageStore {
  readonly #clock: Clock
  readonly #rows = new Map<string, UsageCount>()
  readonly #lastSeqs = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async reportUsage({ process, seq, counts, retentionHours }: UsageReport): Promise<number> {
    const previousSeq = this.#lastSeqs.get(process) ?? 0
    if (seq <= previousSeq) return previousSeq
    this.#lastSeqs.set(process, seq)
    for (const { calls, credits, ...group } of counts) {
      const { hour, account, key, network, method, outcome, forwarded } = group
      const row = [hour, account, key, network, method, outcome, forwarded].join(' ')
      const known = this.#rows.get(row) ?? { calls: 0, credits: 0 }
      this.#rows.set(row, { ...group, calls: known.calls + calls, credits: known.credits + credits })
    }
    const oldest = Math.floor(this.#clock.now() / hourMs) - retentionHours
    for (const [row, { hour }] of this.#rows) if (hour < oldest) this.#rows.delete(row)
    return previousSeq
  }

  usageCounts(account: string, from: number, to: number): readonly UsageCount[] {
    const found = [...this.#rows.values()].filter(row => row.account === account && row.hour >= from && row.hour < to)
    return found.sort((a, b) => a.hour - b.hour)
  }
}
