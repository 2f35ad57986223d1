import { isDeepStrictEqual } from 'node:util'
import { generateApiKey, hashApiKey } from '../services/accounts/api-key.ts'
import type { KeyStore } from '../services/accounts/index.ts'
import type { Clock } from '../services/clock.ts'
import { applyLeaseRequest, emptyLeaseRecord, sumDay } from '../store/lease-accounting.ts'
import type { LeaseRequest, LeaseRecord } from '../store/lease-accounting.ts'
import { unexpired } from '../store/record-store.ts'
import type { FilterRecords, RecordStore, StoredRecord } from '../store/record-store.ts'
import { StoreClock } from '../store/store-clock.ts'
import { ledgerRetentionDays, processTimeoutMs } from '../store/store.ts'
import type {
  BalanceStore,
  ChangeCounts,
  KeyRow,
  KeyWithAccount,
  LeaseResponse,
  LedgerStore,
  StoreDay,
  HeartbeatResponse,
  DayTotals,
} from '../store/store.ts'
import { totalsByHour } from '../store/usage-store.ts'
import type { HourTotal, UsageAcknowledgment, UsageCount, UsageReport, UsageStore, UsageSums } from '../store/usage-store.ts'
import type { Key } from '../plugin/call.ts'
import { dayMs, hourMs } from '../util/dates.ts'
import { getOrCreate } from '../util/memoize.ts'
import { addVector } from '../util/vectors.ts'

/** An API key of a test, with the members of a key. Its account has the name of the key unless `account` names it. */
export interface TestKey extends Partial<Omit<Key, 'id'>> {
  readonly account?: string
  /** The plan of the account; the first of the plans unless given. */
  readonly plan?: string
  /** Credits a day of the account, in place of the plan's. */
  readonly credits?: number
  readonly revoked?: boolean
  readonly suspended?: boolean
}

/** Keys in memory, by names. Their texts are generated, so that they pass every check that the text of a key passes. */
export class InMemoryKeys implements KeyStore {
  readonly #rows = new Map<string, KeyWithAccount>()
  readonly #textByName = new Map<string, string>()
  readonly firstName: string | null

  constructor(keys: Readonly<Record<string, TestKey>>, defaultPlan: string) {
    this.firstName = Object.keys(keys)[0] ?? null
    for (const [name, key] of Object.entries(keys)) {
      const text = generateApiKey().reveal()
      this.#textByName.set(name, text)
      this.#rows.set(hashApiKey(text), toRow(name, key, defaultPlan))
    }
  }

  /** The text of the key with this name; an unknown name is a text itself. */
  textOf(name: string): string {
    return this.#textByName.get(name) ?? name
  }

  /** The key with this name, and its account. */
  find(name: string): KeyWithAccount | undefined {
    return this.#rows.get(hashApiKey(this.textOf(name)))
  }

  findKey = (hash: string): KeyWithAccount | undefined => this.#rows.get(hash)
  findKeyById = (id: string): KeyWithAccount | undefined => [...this.#rows.values()].find(({ key }) => key.id === id)
  revokeKey = async (id: string, time: number): Promise<KeyRow | undefined> => {
    const found = [...this.#rows].find(([, { key }]) => key.id === id)
    if (found === undefined) return undefined
    const [hash, { key, account }] = found
    const revoked = { ...key, revoked: key.revoked ?? time }
    this.#rows.set(hash, { key: revoked, account })
    return revoked
  }
  changeCount = (): number => 0
  changeCounts = (): ChangeCounts => ({ total: 0, byGroup: new Map() })
  subscribe = (): (() => void) => () => undefined
}

const toRow = (name: string, key: TestKey, defaultPlan: string): KeyWithAccount => {
  const { account = name, plan = defaultPlan, credits, revoked, suspended, ...ownMembers } = key
  return {
    account: { id: `acc_${account}`, name: account, plan, ...(credits !== undefined && { credits }), created: 0 },
    key: {
      id: `key_${name}`,
      name,
      ...ownMembers,
      account: `acc_${account}`,
      created: 0,
      hint: '',
      ...(revoked === true && { revoked: 0 }),
      ...(suspended === true && { suspended: 0 }),
    },
  }
}

/** The leases of one account on one day. */
interface AccountDay {
  leased: number
  readonly records: Map<string, LeaseRecord>
}

/** A ledger in memory. It fulfills the contract of ledger stores; tests put an unreliable network in front of it. */
export class InMemoryLedgerStore implements LedgerStore, Pick<BalanceStore, 'dayTotals'> {
  readonly horizonMs = 1_000
  readonly #clock: Clock
  readonly #storeClock: StoreClock
  #days = new Map<string, AccountDay>()
  #heartbeats = new Map<string, number>()
  #latestDay = 0

  constructor(clock: Clock) {
    this.#clock = clock
    this.#storeClock = new StoreClock(clock)
  }

  async requestLease(request: LeaseRequest): Promise<LeaseResponse> {
    const storeDay = this.#advanceDay()
    const day = this.#day(request.day, request.account)
    const { leased, record } = applyLeaseRequest(day.leased, day.records.get(request.process) ?? emptyLeaseRecord, request, storeDay.today)
    day.leased = leased
    day.records.set(request.process, record)
    return { ...storeDay, counters: record, remaining: request.limit - leased }
  }

  async heartbeat(process: string): Promise<HeartbeatResponse> {
    this.#heartbeats.set(process, this.#clock.now())
    for (const each of this.#heartbeats.keys()) if (!this.#isAlive(each)) this.#heartbeats.delete(each)
    const { ignoredJumpMs } = this.#storeClock.read(this.#clock.now(), undefined, () => false)
    return { ...this.#advanceDay(), liveProcesses: this.#heartbeats.size, ignoredJumpMs }
  }

  async deregister(process: string): Promise<void> {
    this.#heartbeats.delete(process)
  }

  dayTotals(account: string, requestedDay?: number): DayTotals {
    const storeDay = this.#advanceDay()
    const day = requestedDay ?? storeDay.today
    const { leased, records } = this.#day(day, account)
    // Usage is another store.
    const sums = sumDay({ leases: records, reported: new Map() }, process => this.#isAlive(process))
    return { ...storeDay, day, leased, ...sums, counted: sums.used }
  }

  /** By process. */
  leaseRecords(account: string, day: number): ReadonlyMap<string, LeaseRecord> {
    return this.#day(day, account).records
  }

  /** Copies the current state. Returns the function that restores it. */
  backup(): () => void {
    const snapshot = structuredClone({ days: this.#days, heartbeats: this.#heartbeats, latestDay: this.#latestDay })
    return () => {
      this.#days = structuredClone(snapshot.days)
      this.#heartbeats = structuredClone(snapshot.heartbeats)
      this.#latestDay = snapshot.latestDay
    }
  }

  #advanceDay(): StoreDay {
    const { now } = this.#storeClock.read(this.#clock.now(), undefined, () => false)
    if (now >= (this.#latestDay + 1) * dayMs) {
      this.#latestDay = Math.floor(now / dayMs)
      for (const key of this.#days.keys()) if (Number.parseInt(key, 10) <= this.#latestDay - ledgerRetentionDays) this.#days.delete(key)
    }
    return { today: this.#latestDay, endsInMs: (this.#latestDay + 1) * dayMs - now }
  }

  #day(day: number, account: string): AccountDay {
    const key = `${day} ${account}`
    return getOrCreate(this.#days, key, () => ({ leased: 0, records: new Map<string, LeaseRecord>() }))
  }

  #isAlive(process: string): boolean {
    return Math.abs(this.#clock.now() - (this.#heartbeats.get(process) ?? -Infinity)) <= processTimeoutMs
  }
}

/** Usage in memory. It fulfills the contract of usage stores. */
export class InMemoryUsageStore implements UsageStore {
  readonly #clock: Clock
  readonly #rows = new Map<string, UsageCount>()
  readonly #lastSeqs = new Map<string, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async reportUsage({ process, seq, counts, retentionHours }: UsageReport): Promise<UsageAcknowledgment> {
    const lastSeq = this.#lastSeqs.get(process) ?? 0
    if (seq <= lastSeq) return { lostWrites: 'none' }
    this.#lastSeqs.set(process, seq)
    for (const { calls, credits, latencies: added = [], ...group } of counts) {
      const { hour, account, key, network, method, outcome, forwarded } = group
      const row = [hour, account, key, network, method, outcome, forwarded].join(' ')
      const sum: UsageSums = this.#rows.get(row) ?? { calls: 0, credits: 0 }
      const latencies = [...(sum.latencies ?? [])]
      addVector(latencies, added)
      const sums = { calls: sum.calls + calls, credits: sum.credits + credits, ...(latencies.length > 0 && { latencies }) }
      this.#rows.set(row, { ...group, ...sums })
    }
    const oldest = Math.floor(this.#clock.now() / hourMs) - retentionHours
    for (const [row, { hour }] of this.#rows) if (hour < oldest) this.#rows.delete(row)
    return { lostWrites: seq > lastSeq + 1 ? 'missing' : 'none' }
  }

  usageCounts(account: string, from: number, to: number): readonly UsageCount[] {
    const found = [...this.#rows.values()].filter(
      row => row.account === account && row.hour >= from && row.hour < to && (row.calls !== 0 || row.credits !== 0),
    )
    return found.sort((a, b) => a.hour - b.hour)
  }

  hourTotals(account: string, from: number, to: number): readonly HourTotal[] {
    return totalsByHour(this.usageCounts(account, from, to)).map(({ account: _, ...total }) => total)
  }
}

/** Filters of callers: as in a store that several processes share. */
export const openInMemoryFilterRecords = (clock: Pick<Clock, 'now'>): FilterRecords => {
  const records = new Map<string, StoredRecord>()
  const find: FilterRecords['find'] = async id => unexpired(records.get(id), clock.now())
  return {
    find,
    put: async record => void records.set(record.id, record),
    async replace(found, record) {
      if (!isDeepStrictEqual(unexpired(records.get(found.id), clock.now()), found)) return false
      records.set(record.id, record)
      return true
    },
    async take(id) {
      const record = unexpired(records.get(id), clock.now())
      records.delete(id)
      return record
    },
  }
}

/** Records of one kind and account. */
export const openInMemoryRecords = (): Pick<RecordStore, 'putRecord' | 'takeRecord' | 'findRecord' | 'records'> => {
  const records = new Map<string, StoredRecord>()
  return {
    putRecord: async (_, record) => void records.set(record.id, record),
    findRecord: (_, id) => records.get(id),
    async takeRecord(_, id) {
      const record = records.get(id)
      records.delete(id)
      return record
    },
    records: () => [...records.values()].toSorted((one, other) => (one.id < other.id ? -1 : 1)),
  }
}
