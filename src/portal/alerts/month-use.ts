import { setImmediate } from 'node:timers/promises'
import { ledgerRetentionDays } from '../../store/store.ts'
import type { Store } from '../../store/store.ts'
import { dayMs, hoursPerDay } from '../../util/dates.ts'
import { isJsonObject } from '../../util/json.ts'

type MonthStore = Pick<Store, 'dayBalance' | 'usageCounts' | 'findRecord' | 'putRecord'>

/** Days are numbered since 1970, UTC. */
export interface MonthDays {
  readonly first: number
  /** The first day of the next month. */
  readonly end: number
}

export const monthOfDay = (day: number): MonthDays => {
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
export const readMonthUse = async (store: MonthStore, account: string, today: number): Promise<number> => {
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
  let credits = 0
  for (let hour = day * hoursPerDay; hour < (day + 1) * hoursPerDay; hour += 1) {
    for (const row of await store.usageCounts(account, hour, hour + 1)) credits += row.credits
    // An hour may have hundreds of rows: calls get their turn in between.
    await setImmediate()
  }
  return credits
}
