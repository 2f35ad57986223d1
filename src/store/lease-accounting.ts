/** Credits of one account's day that one process was granted, returned and used; each is a sum since the day began. */
export interface LeaseCounters {
  readonly granted: number
  readonly returned: number
  readonly used: number
}

/**
 * A process requests credits of one account's day, returns credits that it does not need, and reports its use. As it
 * reports sums and not changes, a request may be lost, duplicated or delayed: the next request makes up for it.
 */
export interface LeaseRequest {
  readonly account: string
  /** Days since 1970, UTC, by the clock of the process. Credits are granted for the store's own day only. */
  readonly day: number
  /** Unique to one start of one process. */
  readonly process: string
  /** Grows with each request of the process; a request with the number of the last one, or a lower number, changes nothing. */
  readonly seq: number
  /** Undefined when the process knows nothing of this day; then it holds no credits either. */
  readonly counters: LeaseCounters | undefined
  /** The grant is at least this much, or 0. */
  readonly minCredits: number
  /** 0 requests no grant. */
  readonly desiredCredits: number
  /** The account's credits for the day. */
  readonly limit: number
  /** Beyond `minCredits` a grant is at most 1/shareDivisor of the remaining credits, so that grants shrink towards the end. */
  readonly shareDivisor: number
}

/** The store's record of one process. The process holds granted - returned - used. */
export interface LeaseRecord extends LeaseCounters {
  readonly seq: number
}

/** One account's day after a request: the sum over all processes, and the record of the process that sent the request. */
interface LeaseResult {
  /** Granted and not returned, over all processes. */
  readonly leased: number
  readonly record: LeaseRecord
}

export const emptyLeaseRecord: LeaseRecord = { granted: 0, returned: 0, used: 0, seq: 0 }

/** The whole arithmetic of leases; every engine runs it as one atomic step, Redis as a script that does the same. */
export const applyLeaseRequest = (leased: number, record: LeaseRecord, request: LeaseRequest, today: number): LeaseResult => {
  if (request.seq <= record.seq) return { leased, record }
  const { counters = { ...record, granted: record.returned + record.used } } = request
  // A store that lost its last writes restores them from the processes that hold the credits.
  const granted = Math.max(record.granted, counters.granted)
  const returned = Math.max(record.returned, counters.returned)
  const outstanding = leased + (granted - record.granted) - (returned - record.returned)
  const unseenGrant = granted - counters.granted
  const grant = request.day === today ? grantSize(request, request.limit - outstanding, unseenGrant) : 0
  return { leased: outstanding + grant, record: { granted: granted + grant, returned, used: counters.used, seq: request.seq } }
}

/**
 * The most that may be leased over all processes so that the request gets all that it asks for: up to there applyLeaseRequest() grants the
 * same. Infinity where it grants nothing anyway.
 */
export const mostLeasedFor = (record: LeaseRecord, request: LeaseRequest, today: number): number => {
  const { seq, day, counters, minCredits, desiredCredits, limit, shareDivisor } = request
  const granted = Math.max(record.granted, counters?.granted ?? 0)
  const returned = Math.max(record.returned, counters?.returned ?? 0)
  const unseenGrant = granted - (counters?.granted ?? record.returned + record.used)
  if (seq <= record.seq || day !== today || desiredCredits <= unseenGrant) return Infinity
  const needed = Math.max((desiredCredits - unseenGrant) * shareDivisor, minCredits - unseenGrant)
  return limit - needed - (granted - record.granted) + (returned - record.returned)
}

/** `unseenGrant` was granted before, in a response that the process has not seen: this response brings it. */
const grantSize = ({ minCredits, desiredCredits, shareDivisor }: LeaseRequest, remaining: number, unseenGrant: number): number => {
  if (desiredCredits <= unseenGrant || minCredits - unseenGrant > remaining) return 0
  return Math.max(0, minCredits - unseenGrant, Math.min(desiredCredits - unseenGrant, Math.floor(remaining / shareDivisor)))
}

/** What one process has reported. */
export interface ReportedUse {
  /** Credits of the calls that it has counted for one account's day. */
  readonly credits: number
  /** It has sent its last report: no call is on its way any more. */
  readonly isFinal: boolean
}

/** One account's day by process: the records of leases, and what processes with usage reports have reported. */
export interface DayRecords {
  readonly leases: ReadonlyMap<string, LeaseRecord>
  readonly reported: ReadonlyMap<string, ReportedUse>
}

/**
 * What the process has used. Its lease says so when nothing is on its way: then a difference to the counts is an error. Otherwise
 * the counts do, so that use and counts agree at every moment, also when the process was killed. Without usage reports the lease
 * has the only record.
 */
const usedBy = (lease: LeaseRecord, reported: ReportedUse | undefined): number =>
  reported === undefined || reported.isFinal ? lease.used : reported.credits

/** As in DayTotals. */
interface DaySums {
  readonly used: number
  readonly held: number
  readonly forfeited: number
  readonly isExact: boolean
}

export const sumDay = ({ leases, reported }: DayRecords, isLive: (process: string) => boolean): DaySums => {
  const totals = { used: 0, held: 0, forfeited: 0 }
  for (const [process, lease] of leases) {
    const used = usedBy(lease, reported.get(process))
    totals.used += used
    totals[isLive(process) ? 'held' : 'forfeited'] += lease.granted - lease.returned - used
  }
  return { ...totals, isExact: [...leases.keys()].every(process => reported.has(process)) }
}
