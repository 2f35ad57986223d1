import type { MaybePromise } from '../util/async.ts'
import { hoursPerDay } from '../util/dates.ts'

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

/** Calls of one group in one hour. */
export interface UsageCount extends UsageGroup {
  /** Hours since 1970, UTC. */
  readonly hour: number
  readonly calls: number
  /** Without refunds. */
  readonly credits: number
}

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
  /** The store does not have the report that the process has sent before. */
  readonly hasLostWrites: boolean
}

/** All calls of one account in one hour. */
export type HourTotal = Pick<UsageCount, 'hour' | 'calls' | 'credits'>

/** The same, of the account that it names. */
export type AccountHourTotal = HourTotal & Pick<UsageCount, 'account'>

/** Counts of calls by group and hour, summed over all processes: restarts add no rows. */
export interface UsageStore {
  /** One atomic step, in which the credits of the counts are recorded as use of the process's leases too. */
  reportUsage(report: UsageReport): Promise<UsageAcknowledgment>
  /** One account's counts from hour `from` up to, not including, hour `to`; in order of hours. */
  usageCounts(account: string, from: number, to: number): MaybePromise<readonly UsageCount[]>
  /** The sums of usageCounts() by hour, which are stored beside them: one row an hour is read, in place of hundreds. */
  hourTotals(account: string, from: number, to: number): MaybePromise<readonly HourTotal[]>
}

/** The sums of counts by account and hour. */
export const totalsByHour = (counts: readonly AccountHourTotal[]): readonly AccountHourTotal[] => {
  const totals = new Map<string, AccountHourTotal>()
  for (const { account, hour, calls, credits } of counts) {
    const key = `${hour} ${account}`
    const total = totals.get(key)
    totals.set(key, { account, hour, calls: (total?.calls ?? 0) + calls, credits: (total?.credits ?? 0) + credits })
  }
  return [...totals.values()]
}

interface AccountDayCredits {
  readonly account: string
  readonly day: number
  readonly credits: number
}

/** The credits of counts by account and day. */
export const creditsByDay = (counts: readonly Omit<AccountHourTotal, 'calls'>[]): readonly AccountDayCredits[] => {
  const sums = new Map<string, AccountDayCredits>()
  for (const { account, hour, credits } of counts) {
    const day = Math.floor(hour / hoursPerDay)
    const key = `${day} ${account}`
    sums.set(key, { account, day, credits: (sums.get(key)?.credits ?? 0) + credits })
  }
  return [...sums.values()].filter(({ credits }) => credits !== 0)
}
