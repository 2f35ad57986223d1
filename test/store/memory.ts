import type { Clock } from '../../src/services/clock.ts'
import { lease, newEntry } from '../../src/store/lease.ts'
import type { Ask, Entry } from '../../src/store/lease.ts'
import { dayLength, deadAfter, hourLength } from '../../src/store/store.ts'
import type { Answer, LedgerStore, Moment, Pulse, Totals, UsageCount, UsageReport, UsageStore } from '../../src/store/store.ts'

interface Day {
  leased: number
  readonly entries: Map<string, Entry>
}

/** The ledger of a store without a disk. It passes the contract, and a network can be put before it. */
export class MemoryLedger implements LedgerStore {
  readonly horizon = 1_000
  readonly #clock: Clock
  #days = new Map<string, Day>()
  #lives = new Map<string, number>()
  #latest = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async ask(ask: Ask): Promise<Answer> {
    const now = this.#turn()
    const day = this.#day(ask.day, ask.account)
    const booking = lease(day.leased, day.entries.get(ask.process) ?? newEntry, ask, now.today)
    day.leased = booking.leased
    day.entries.set(ask.process, booking.entry)
    return { ...now, tally: booking.entry, left: ask.limit - booking.leased }
  }

  async beat(process: string): Promise<Pulse> {
    this.#lives.set(process, this.#clock.now())
    for (const each of this.#lives.keys()) if (!this.#isLive(each)) this.#lives.delete(each)
    return { ...this.#turn(), processes: this.#lives.size }
  }

  async leave(process: string): Promise<void> {
    this.#lives.delete(process)
  }

  totals(account: string, named?: number): Totals {
    const now = this.#turn()
    const day = named ?? now.today
    const { leased, entries } = this.#day(day, account)
    const sums = { used: 0, held: 0, forfeited: 0 }
    for (const [process, { granted, returned, used }] of entries) {
      sums.used += used
      sums[this.#isLive(process) ? 'held' : 'forfeited'] += granted - returned - used
    }
    return { ...now, day, leased, ...sums }
  }

  /** What is on record, by process. */
  entries(account: string, day: number): ReadonlyMap<string, Entry> {
    return this.#day(day, account).entries
  }

  /** Keeps all that is known now. Returns how to put it back. */
  backup(): () => void {
    const kept = structuredClone({ days: this.#days, lives: this.#lives, latest: this.#latest })
    return () => {
      this.#days = structuredClone(kept.days)
      this.#lives = structuredClone(kept.lives)
      this.#latest = kept.latest
    }
  }

  #turn(): Moment {
    const now = this.#clock.now()
    if (now >= (this.#latest + 1) * dayLength) {
      this.#latest = Math.floor(now / dayLength)
      for (const key of this.#days.keys()) if (Number.parseInt(key, 10) <= this.#latest - 3) this.#days.delete(key)
    }
    return { today: this.#latest, endsIn: (this.#latest + 1) * dayLength - now }
  }

  #day(day: number, account: string): Day {
    const key = `${day} ${account}`
    const found = this.#days.get(key) ?? { leased: 0, entries: new Map() }
    this.#days.set(key, found)
    return found
  }

  #isLive(process: string): boolean {
    return Math.abs(this.#clock.now() - (this.#lives.get(process) ?? -Infinity)) <= deadAfter
  }
}

/** Counts of calls without a disk; the same contract. */
export class MemoryUsage implements UsageStore {
  readonly #clock: Clock
  readonly #rows = new Map<string, UsageCount>()
  readonly #marks = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async reportUsage({ process, seq, counts, keep }: UsageReport): Promise<number> {
    const had = this.#marks.get(process) ?? 0
    if (seq <= had) return had
    this.#marks.set(process, seq)
    for (const { calls, credits, ...group } of counts) {
      const { hour, account, key, network, method, outcome, forwarded } = group
      const row = [hour, account, key, network, method, outcome, forwarded].join(' ')
      const known = this.#rows.get(row) ?? { calls: 0, credits: 0 }
      this.#rows.set(row, { ...group, calls: known.calls + calls, credits: known.credits + credits })
    }
    const oldest = Math.floor(this.#clock.now() / hourLength) - keep
    for (const [row, { hour }] of this.#rows) if (hour < oldest) this.#rows.delete(row)
    return had
  }

  usage(account: string, from: number, to: number): readonly UsageCount[] {
    const found = [...this.#rows.values()].filter(row => row.account === account && row.hour >= from && row.hour < to)
    return found.sort((a, b) => a.hour - b.hour)
  }
}
