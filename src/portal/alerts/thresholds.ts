import { setImmediate } from 'node:timers/promises'
import { ledgerRetentionDays } from '../../store/store.ts'
import type { AccountRow, Store } from '../../store/store.ts'
import type { UsageCount } from '../../store/usage-store.ts'
import { effectivePlan } from '../../services/accounts/effective-plan.ts'
import type { Plans } from '../../services/accounts/effective-plan.ts'
import type { Clock } from '../../services/clock.ts'
import { dayMs, hourMs, hoursPerDay, isoDate, isoTime } from '../../util/dates.ts'
import type { AlertSettings } from './alert-settings.ts'
import type { CreditsAlert } from './delivery-records.ts'
import { isJsonObject } from '../../util/json.ts'

/** A threshold that the account has reached. */
interface ReachedThreshold {
  readonly message: CreditsAlert
  /** When the period ends, in ms since 1970. */
  readonly endsAt: number
}

type ThresholdStore = Pick<Store, 'dayBalance' | 'keys' | 'usageCounts' | 'usageRows' | 'findRecord' | 'putRecord'>

export interface ThresholdServices {
  readonly store: ThresholdStore
  plans(): Plans
  readonly clock: Pick<Clock, 'now'>
}

/** What the account has reached today and this month, whether it has been sent or not. */
export const readReachedThresholds = async (
  { store, plans, clock }: ThresholdServices,
  row: AccountRow,
  settings: Pick<AlertSettings, 'daily' | 'monthly' | 'keyDaily'>,
): Promise<readonly ReachedThreshold[]> => [
  ...(await readThresholdsOfAccount({ store, plans, clock }, row, settings)),
  ...(settings.keyDaily.length === 0 ? [] : await readThresholdsOfKeys(store, row, settings.keyDaily)),
]

/** Of the keys of the account that have a daily limit, and are not revoked. */
const readThresholdsOfKeys = async (
  store: ThresholdStore,
  { id, name, plan }: AccountRow,
  thresholds: readonly number[],
): Promise<readonly ReachedThreshold[]> => {
  const reached: ReachedThreshold[] = []
  for (const key of await store.keys(id)) {
    const { dailyCredits: limit = 0, revoked } = key
    if (limit <= 0 || revoked !== undefined) continue
    const { day, used, forfeited } = await store.dayBalance(key.id)
    const data = {
      ...{ account: { id, name }, plan, key: { id: key.id, name: key.name ?? '', hint: key.hint } },
      ...{ period: 'day' as const, date: isoDate(day * dayMs), used, limit },
    }
    reached.push(...toReached(data, thresholds, percentOf(used + forfeited, limit), (day + 1) * dayMs))
  }
  return reached
}

const readThresholdsOfAccount = async (
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
    period: 'month' as const,
    date: isoDate(day * dayMs).slice(0, 7),
    limit: limit * (end - first),
    used: (await readMonthUse(store, row.id, day)) + used,
  }
  return [...reached, ...toReached(monthly, settings.monthly, percentOf(monthly.used, monthly.limit), end * dayMs)]
}

const percentOf = (used: number, limit: number): number => (100 * used) / limit

const toReached = (
  data: Omit<CreditsAlert, 'threshold' | 'resetAt'>,
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

type MonthStore = Pick<Store, 'dayBalance' | 'usageRows' | 'findRecord' | 'putRecord'>

/** Days are numbered since 1970, UTC. */
interface MonthDays {
  readonly first: number
  /** The first day of the next month. */
  readonly end: number
}

const monthOfDay = (day: number): MonthDays => {
  const date = new Date(day * dayMs)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()]
  return { first: Date.UTC(year, month) / dayMs, end: Date.UTC(year, month + 1) / dayMs }
}

/** The credits of the days from the first of the month up to, not including, `end`. */
interface SettledDays {
  readonly first: number
  readonly end: number
  readonly credits: number
}

/**
 * Credits of the days of this month before `today`. The sum of the days before yesterday is stored: to add up a month takes seconds.
 * Yesterday is read each time, as gateways may still report calls of it.
 */
const readMonthUse = async (store: MonthStore, account: string, today: number): Promise<number> => {
  const { first, end: monthEnd } = monthOfDay(today)
  if (today === first) return 0
  const settled = await readSettledDays(store, account, first)
  let credits = settled?.credits ?? 0
  for (let day = settled?.end ?? first; day < today - 1; day += 1) credits += await readDayUse(store, account, day, today)
  if (settled === undefined || settled.end < today - 1) {
    const value = { first, end: today - 1, credits }
    await store.putRecord('month-use', { id: account, account, value, expires: monthEnd * dayMs })
  }
  return credits + (await store.dayBalance(account, today - 1)).used
}

const readSettledDays = async (store: MonthStore, account: string, first: number): Promise<SettledDays | undefined> => {
  const value = (await store.findRecord('month-use', account))?.value
  return isJsonObject(value) && value['first'] === first ? (value as unknown as SettledDays) : undefined // written above alone
}

/** From the ledger, or from the counted calls where the ledger no longer has the day. */
const readDayUse = async (store: MonthStore, account: string, day: number, today: number): Promise<number> => {
  if (day > today - ledgerRetentionDays) return (await store.dayBalance(account, day)).used
  const [found] = await store.usageRows(account, 'day', day, day + 1)
  // A day may have hundreds of rows: calls get their turn in between.
  await setImmediate()
  return found?.rows.reduce((sum, { credits }) => sum + credits, 0) ?? 0
}
