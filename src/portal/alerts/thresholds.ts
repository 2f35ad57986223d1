import { setImmediate } from 'node:timers/promises'
import { ledgerRetentionDays } from '../../store/store.ts'
import type { AccountRow, KeyUse, Store } from '../../store/store.ts'
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

type ThresholdStore = Pick<Store, 'dayBalance' | 'keyUse' | 'keys' | 'usageCounts' | 'usageRows' | 'findRecord' | 'putRecord'>

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
): Promise<readonly ReachedThreshold[]> => {
  const limit = effectivePlan(row, plans())?.dailyCredits ?? 0
  const balance = await store.dayBalance(row.id)
  const hour = Math.floor(clock.now() / hourMs)
  let read: Promise<Refusals> | undefined
  const refusals = () => (read ??= readRefusals(store, row.id, { day: balance.day, hour }))
  const state = { row, limit, balance, refusals }
  return [
    ...(limit <= 0 ? [] : await readThresholdsOfAccount(store, state, settings)),
    ...(settings.keyDaily.length === 0 ? [] : await readThresholdsOfKeys(store, state, settings.keyDaily)),
  ]
}

interface AccountOfDay {
  readonly row: AccountRow
  /** Credits of a day. */
  readonly limit: number
  readonly balance: KeyUse
  /** Read once, where it matters. */
  refusals(): Promise<Refusals>
}

/** Of the keys of the account that have a daily limit, and are not revoked. */
const readThresholdsOfKeys = async (
  store: ThresholdStore,
  { row: { id, name, plan }, limit: accountLimit, balance: accountBalance, refusals }: AccountOfDay,
  thresholds: readonly number[],
): Promise<readonly ReachedThreshold[]> => {
  const reached: ReachedThreshold[] = []
  for (const key of await store.keys(id)) {
    const { dailyCredits: limit = 0, revoked } = key
    if (limit <= 0 || revoked !== undefined) continue
    const balance = await store.keyUse(key.id)
    const { day, used } = balance
    const data = {
      ...{ account: { id, name }, plan, key: { id: key.id, name: key.name ?? '', hint: key.hint } },
      ...{ period: 'day' as const, date: isoDate(day * dayMs), used, limit },
    }
    // The account may be what has no credits left.
    const isRefused = async (): Promise<boolean> => {
      const { keys, areOfAccount } = await refusals()
      return keys.has(key.id) && !areOfAccount && shareOf(accountBalance, accountLimit) < 100
    }
    reached.push(...toReached(data, thresholds, await shareWithRefusals(balance, limit, thresholds, isRefused), (day + 1) * dayMs))
  }
  return reached
}

const readThresholdsOfAccount = async (
  store: ThresholdStore,
  { row, limit, balance, refusals }: AccountOfDay,
  settings: Pick<AlertSettings, 'daily' | 'monthly'>,
): Promise<readonly ReachedThreshold[]> => {
  const { day, used } = balance
  const account = { id: row.id, name: row.name }
  const daily = { account, plan: row.plan, period: 'day' as const, date: isoDate(day * dayMs), used, limit }
  const share = await shareWithRefusals(balance, limit, settings.daily, async () => (await refusals()).areOfAccount)
  const reached = toReached(daily, settings.daily, share, (day + 1) * dayMs)
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

/** What a process that was killed had leased cannot be used today. */
const shareOf = ({ used, forfeited }: KeyUse, limit: number): number => percentOf(used + forfeited, limit)

/** Percent: from here on, calls may be refused because the rest of the credits is smaller than what they cost. */
const minShareOfRefusals = 75

/** 100 where calls are refused although there is a rest. */
const shareWithRefusals = async (
  balance: KeyUse,
  limit: number,
  thresholds: readonly number[],
  isRefused: () => Promise<boolean>,
): Promise<number> => {
  const share = shareOf(balance, limit)
  const mayBeFull = share < 100 && share >= minShareOfRefusals && thresholds.includes(100)
  return mayBeFull && (await isRefused()) ? 100 : share
}

const toReached = (
  data: Omit<CreditsAlert, 'threshold' | 'resetAt'>,
  thresholds: readonly number[],
  share: number,
  endsAt: number,
): readonly ReachedThreshold[] =>
  thresholds
    .filter(threshold => share >= threshold)
    .map(threshold => ({ message: { ...data, threshold, resetAt: isoTime(endsAt) }, endsAt }))

interface DayHour {
  readonly day: number
  /** Hours since 1970. */
  readonly hour: number
}

/** Calls of this hour or the one before that were refused today for want of credits. */
interface Refusals {
  /** The ids of their keys. */
  readonly keys: ReadonlySet<string>
  /** Some are for want of credits of the account: those of a key without a limit of its own. */
  readonly areOfAccount: boolean
}

const readRefusals = async (store: ThresholdStore, account: string, { day, hour }: DayHour): Promise<Refusals> => {
  const rows = (await store.usageCounts(account, Math.max(day * hoursPerDay, hour - 1), hour + 1)).filter(isRefusal)
  const keys = new Set(rows.map(({ key }) => key))
  if (keys.size === 0) return { keys, areOfAccount: false }
  const limitedKeys = new Set((await store.keys(account)).filter(({ dailyCredits }) => dailyCredits !== undefined).map(({ id }) => id))
  return { keys, areOfAccount: [...keys].some(key => !limitedKeys.has(key)) }
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
