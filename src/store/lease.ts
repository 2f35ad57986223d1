/** What one process got, gave back and used of one account's day, each added up since the day began. */
export interface Tally {
  readonly granted: number
  readonly returned: number
  readonly used: number
}

/**
 * A process asks for credits of one account's day, gives back what it no longer wants, and says what it has used.
 * Sums instead of changes make it safe to lose, to double and to delay: whatever was missed is in the next ask.
 */
export interface Ask {
  readonly account: string
  /** Days since 1970, UTC, as the process believes. Nothing is granted for any day but the store's own. */
  readonly day: number
  /** Unique to one start of one process. */
  readonly process: string
  /** Grows with each ask of the process; an ask that is not newer than the last one changes nothing. */
  readonly seq: number
  /** Undefined when the process remembers nothing of this day; then it holds nothing either. */
  readonly tally: Tally | undefined
  /** Least that helps: the grant is not smaller, or it is zero. */
  readonly need: number
  /** Zero asks for nothing. */
  readonly want: number
  /** The account's credits for the day. */
  readonly limit: number
  /** A grant beyond `need` takes at most one part in `share` of what is left, so that grants shrink towards the end. */
  readonly share: number
}

/** What the store keeps of one process. Granted, less returned, less used is what the process holds. */
export interface Entry extends Tally {
  readonly seq: number
}

/** One account's day after an ask: the sum over all processes, and the entry of the one that asked. */
export interface Booking {
  /** Granted and not returned, over all processes; never more than the limit. */
  readonly leased: number
  readonly entry: Entry
}

export const newEntry: Entry = { granted: 0, returned: 0, used: 0, seq: 0 }

/** Answers an ask: the whole arithmetic of leases, which every engine runs as one atomic step. */
export const lease = (leased: number, entry: Entry, ask: Ask, today: number): Booking => {
  if (ask.seq <= entry.seq) return { leased, entry }
  const { tally = { ...entry, granted: entry.returned + entry.used } } = ask
  // A store that lost its last writes learns them again from those who hold the credits.
  const granted = Math.max(entry.granted, tally.granted)
  const returned = Math.max(entry.returned, tally.returned)
  const owed = leased + (granted - entry.granted) - (returned - entry.returned)
  const unseen = granted - tally.granted
  const grant = ask.day === today ? grantOf(ask, ask.limit - owed, unseen) : 0
  return { leased: owed + grant, entry: { granted: granted + grant, returned, used: tally.used, seq: ask.seq } }
}

/** `unseen` was granted before, but the process has not heard of it yet: this answer brings it. */
const grantOf = ({ need, want, share }: Ask, left: number, unseen: number): number => {
  if (want <= unseen || need - unseen > left) return 0
  return Math.max(0, need - unseen, Math.min(want - unseen, Math.floor(left / share)))
}
