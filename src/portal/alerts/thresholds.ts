import type { AccountRow, Store } from '../../store/store.ts'
import type { UsageCount } from '../../store/usage-store.ts'
import { effectivePlan } from '../../services/accounts/index.ts'
import type { Plans } from '../../services/accounts/index.ts'
import type { Clock } from '../../services/clock.ts'
import { dayMs, hourMs, hoursPerDay, isoDate, isoTime } from '../../util/dates.ts'
import type { AlertSettings } from './alert-settings.ts'
import type { AlertMessage } from './delivery.ts'
import { monthOfDay, readMonthUse } from './month-use.ts'

/** A threshold that the account has reached. */
export interface ReachedThreshold {
  readonly message: AlertMessage['data']
  /** When the period ends, in ms since 1970. */
  readonly endsAt: number
}

export type ThresholdStore = Pick<Store, 'dayBalance' | 'keys' | 'usageCounts' | 'findRecord' | 'putRecord'>

export interface ThresholdServices {
  readonly store: ThresholdStore
  plans(): Plans
  readonly clock: Pick<Clock, 'now'>
}

/** What the account has reached today and this month, whether it has been sent or not. */
export const readReachedThresholds = async (
  { store, plans, clock }: ThresholdServices,
  row: AccountRow,
  settings: Pick<AlertSettings, 'daily' | 'monthly'>,
): Promise<readonly ReachedThreshold[]> => {
  const limit = effectivePlan(row, plans())?.dailyCredits ?? 0
  if (limit <= 0) return []
  const { day, used, forfeited } = await store.dayBalance(row.id)
  const account = { id: row.id, name: row.name }
  const daily = { account, plan: row.plan, period: 'day' as const, date: isoDate(day * dayMs), used, limit }
  // What a process that was killed had leased cannot be used today.
  const share = percentOf(used + forfeited, limit)
  const mayBeFull = share < 100 && share >= minShareOfRefusals && settings.daily.includes(100)
  const isFull = mayBeFull && (await hasRefusedCalls(store, row.id, { day, hour: Math.floor(clock.now() / hourMs) }))
  const reached = toReached(daily, settings.daily, isFull ? 100 : share, (day + 1) * dayMs)
  if (settings.monthly.length === 0) return reached
  const { first, end } = monthOfDay(day)
  const monthly = {
    ...daily,
    ...{ period: 'month' as const, date: isoDate(day * dayMs).slice(0, 7), limit: limit * (end - first) },
    used: (await readMonthUse(store, row.id, day)) + used,
  }
  return [...reached, ...toReached(monthly, settings.monthly, percentOf(monthly.used, monthly.limit), end * dayMs)]
}

const percentOf = (used: number, limit: number): number => (100 * used) / limit

const toReached = (
  data: Omit<AlertMessage['data'], 'threshold' | 'resetAt'>,
  thresholds: readonly number[],
  share: number,
  endsAt: number,
): readonly ReachedThreshold[] =>
  thresholds
    .filter(threshold => share >= threshold)
    .map(threshold => ({ message: { ...data, threshold, resetAt: isoTime(endsAt) }, endsAt }))

/** Percent: from here on, calls may be refused because the rest of the credits is smaller than what they cost. */
const minShareOfRefusals = 75

interface DayHour {
  readonly day: number
  /** Hours since 1970. */
  readonly hour: number
}

/** Has a call of this hour or the one before been refused today for want of credits of the account? */
const hasRefusedCalls = async (store: ThresholdStore, account: string, { day, hour }: DayHour): Promise<boolean> => {
  const rows = (await store.usageCounts(account, Math.max(day * hoursPerDay, hour - 1), hour + 1)).filter(isRefusal)
  if (rows.length === 0) return false
  // A key with a limit of its own is refused by that.
  const limitedKeys = new Set((await store.keys(account)).filter(({ dailyCredits }) => dailyCredits !== undefined).map(({ id }) => id))
  return rows.some(({ key }) => !limitedKeys.has(key))
}

const isRefusal = ({ outcome, calls }: UsageCount): boolean => outcome === 'spent' && calls > 0
