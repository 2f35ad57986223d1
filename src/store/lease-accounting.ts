/** What one process got, gave back and used of one account's day, each added up since the day began. */
export interface LeaseCounters {
  readonly granted: number
  readonly returned: number
  readonly used: number
}

/**
 * A process asks for credits of one account's day, gives back what it no longer wants, and says what it has used.
 * Sums instead of changes make it safe to lose, to double and to delay: whatever was missed is in the next ask.
 */
export interface LeaseRequest {
  readonly account: string
  /** Days since 1970, UTC, as the process believes. Nothing is granted for any day but the store's own. */
  readonly day: number
  /** Unique to one start of one process. */
  readonly process: string
  /** Grows with each ask of the process; an ask that is not newer than the last one changes nothing. */
  readonly seq: number
  /** Undefined when the process remembers nothing of this day; then it holds nothing either. */
  readonly counters: LeaseCounters | undefined
  /** Least that helps: the grant is not smaller, or it is zero. */
  readonly need: number
  /** Zero asks for nothing. */
  readonly want: number
  /** The account's credits for the day. */
  readonly limit: number
  /** A grant beyond `need` takes at most one part in `share` of what is left, so that grants shrink towards the end. */
  readonly shareDivisor: number
}

/** What the store keeps of one process. Granted, less returned, less used is what the process holds. */
export interface LeaseRecord extends LeaseCounters {
  readonly seq: number
}

/** One account's day after an ask: the sum over all processes, and the entry of the one that asked. */
export interface LeaseResult {
  /** Granted and not returned, over all processes; never more than the limit. */
  readonly leased: number
  readonly record: LeaseRecord
}

export const emptyLeaseRecord: LeaseRecord = { granted: 0, returned: 0, used: 0, seq: 0 }

/** Answers an ask: the whole arithmetic of leases, which every engine runs as one atomic step. */
export const applyLeaseRequest = (leased: number, record: LeaseRecord, request: LeaseRequest, today: number): LeaseResult => {
  if (request.seq <= record.seq) return { leased, record }
  const { counters = { ...record, granted: record.returned + record.used } } = request
  // A store that lost its last writes learns them again from those who hold the credits.
  const granted = Math.max(record.granted, counters.granted)
  const returned = Math.max(record.returned, counters.returned)
  const outstanding = leased + (granted - record.granted) - (returned - record.returned)
  const unseenGrant = granted - counters.granted
  const grant = request.day === today ? grantSize(request, request.limit - outstanding, unseenGrant) : 0
  return { leased: outstanding + grant, record: { granted: granted + grant, returned, used: counters.used, seq: request.seq } }
}

/** `unseen` was granted before, but the process has not heard of it yet: this answer brings it. */
const grantSize = ({ need, want, shareDivisor }: LeaseRequest, remaining: number, unseenGrant: number): number => {
  if (want <= unseenGrant || need - unseenGrant > remaining) return 0
  return Math.max(0, need - unseenGrant, Math.min(want - unseenGrant, Math.floor(remaining / shareDivisor)))
}
