import type { MaybePromise } from '../util/async.ts'
import { dayMs, hourMs, hoursPerDay } from '../util/dates.ts'
import type { LatencyBuckets } from '../util/latency-buckets.ts'

/** Calls with the same members are counted together. */
export interface UsageGroup {
  readonly account: string
  /** Id of the API key. */
  readonly key: string
  readonly network: string
  /** `other` when the network's method table does not have it. */
  readonly method: string
  /** `ok`, or the kind of the failure. */
  readonly outcome: string
  /** True when a partner answered. */
  readonly forwarded: boolean
}

/** One text for each group of an account. It is stored. */
export const usageGroupKey = ({ key, network, method, outcome, forwarded }: UsageGroup): string =>
  JSON.stringify([key, network, method, outcome, forwarded])

/** What is counted of the calls of one group. */
export interface UsageSums {
  readonly calls: number
  /** Without refunds. */
  readonly credits: number
  /** How long the calls took; absent where that is not known, as of failed calls. */
  readonly latencies?: LatencyBuckets
}

/** Calls of one group in one hour. */
export interface UsageCount extends UsageGroup, UsageSums {
  /** Hours since 1970, UTC. */
  readonly hour: number
  /** The five minutes of that hour, since 1970; absent where they are not known any more. */
  readonly fiveMinutes?: number | undefined
  /** Calls of a whole day, of which the hours are not known any more: `hour` is its last one. */
  readonly isWholeDay?: true
}

/** The length of the periods that calls are counted by, in ms. */
export const usagePeriodsMs = { fiveMinutes: 300_000, hour: hourMs, day: dayMs } as const

export type UsagePeriod = keyof typeof usagePeriodsMs

export const fiveMinutesPerHour = hourMs / usagePeriodsMs.fiveMinutes

/** Calls of one group in one period. Rows of the same group may share the group. */
export interface UsageRow extends UsageSums {
  readonly group: UsageGroup
}

/** Counts of five minutes are kept for so long. */
export const fiveMinuteRetentionHours = 6

/** Counts of hours are kept for so many days before today, or for the retention where that is shorter; those of days for the retention. */
export const hourRetentionDays = 14

/**
 * The counts of one process since its last report. A report may be lost, duplicated or delayed: it is sent unchanged until
 * it is acknowledged, and only then the next one is sent.
 */
export interface UsageReport {
  /** Unique to one start of one process. */
  readonly process: string
  /** Grows with each report of the process; a report with the number of the last one, or a lower number, changes nothing. */
  readonly seq: number
  /** Added to the store's counts. Negative where calls were taken back; may be empty. */
  readonly counts: readonly UsageCount[]
  /** Older hours are dropped, sooner or later. */
  readonly retentionHours: number
  /** The last report of a process that ends in order. */
  readonly isFinal?: boolean
}

export interface UsageAcknowledgment {
  /** The store did not have reports that it had acknowledged: it has them again, or some are missing from the counts. */
  readonly lostWrites: 'none' | 'repeated' | 'missing'
}

/** All calls of one account in one hour. */
export interface HourTotal extends Pick<UsageCount, 'hour' | 'calls' | 'credits'> {
  readonly failed: number
}

/** The same, of the account that it names. */
type AccountHourTotal = HourTotal & Pick<UsageCount, 'account'>

export const successOutcome = 'ok'

/** What an account has used, as far as it is counted. */
export interface AccountUse {
  readonly account: string
  /** Credits of the day. */
  readonly credits: number
  /** Calls of each of the hours that were asked for. */
  readonly calls: readonly number[]
}

export interface AccountUseStore {
  /** Of these accounts, in their order: some rows of each are read, however many groups of calls there are. */
  accountUse(
    accounts: readonly string[],
    of: { readonly day: number; readonly hours: readonly number[] },
  ): MaybePromise<readonly AccountUse[]>
}

/** Counts of calls by group and hour, summed over all processes: restarts add no rows. */
export interface UsageStore {
  /** One atomic step, in which the credits of the counts are recorded as use of the process's leases too. */
  reportUsage(report: UsageReport): Promise<UsageAcknowledgment>
  /** One account's counts from hour `from` up to, not including, hour `to`; in order of hours, as far as they are kept. */
  usageCounts(account: string, from: number, to: number): MaybePromise<readonly UsageCount[]>
  /** The sums of usageCounts() by hour, which are stored beside them: one row an hour is read, in place of hundreds. */
  hourTotals(account: string, from: number, to: number): MaybePromise<readonly HourTotal[]>
}

/** The same counts by other periods, which are written with those of hours: a range of months has few rows to read. */
export interface UsagePeriods {
  /** One account's rows from period `from` up to, not including, period `to` (periods since 1970); in order, and nothing for a period without calls. */
  usageRows(
    account: string,
    period: UsagePeriod,
    from: number,
    to: number,
  ): MaybePromise<readonly { readonly start: number; readonly rows: readonly UsageRow[] }[]>
  /** The ids of all accounts with calls in the period, those that have been removed since included; in no order. */
  usageAccounts(period: UsagePeriod, start: number): Promise<readonly string[]>
}

/** The sums of counts by account and hour. */
export const totalsByHour = (counts: readonly UsageCount[]): readonly AccountHourTotal[] => {
  const totals = new Map<string, AccountHourTotal>()
  for (const { account, hour, isWholeDay, outcome, calls, credits } of counts) {
    if (isWholeDay === true) continue
    const key = `${hour} ${account}`
    const total = totals.get(key) ?? { calls: 0, credits: 0, failed: 0 }
    const failed = total.failed + (outcome === successOutcome ? 0 : calls)
    totals.set(key, { account, hour, calls: total.calls + calls, credits: total.credits + credits, failed })
  }
  return [...totals.values()]
}

interface AccountDayCredits {
  readonly account: string
  readonly day: number
  readonly credits: number
}

/** The credits of counts by account and day. */
export const creditsByDay = (counts: readonly Pick<UsageCount, 'account' | 'hour' | 'credits'>[]): readonly AccountDayCredits[] => {
  const sums = new Map<string, AccountDayCredits>()
  for (const { account, hour, credits } of counts) {
    const day = Math.floor(hour / hoursPerDay)
    const key = `${day} ${account}`
    sums.set(key, { account, day, credits: (sums.get(key)?.credits ?? 0) + credits })
  }
  return [...sums.values()].filter(({ credits }) => credits !== 0)
}
