import type { ChangeAuthor } from '../../services/accounts/change-history.ts'
import { texts } from './texts.ts'

// Numbers are those of Intl.NumberFormat('en'), whose first use takes a browser 15 ms of CPU: an eighth of what the first page takes.

export const groupDigits = (digits: string): string => digits.replace(/\B(?=(?:\d{3})+$)/g, ',')

/** `1,234.5`: at most three decimals. */
export const formatNumber = (value: number | null): string => {
  if (value === null) return '–'
  const [whole = '', decimals] = String(Number(value.toFixed(3))).split('.')
  return decimals === undefined ? groupDigits(whole) : `${groupDigits(whole)}.${decimals}`
}

/** `1 call`, `1,234 calls`. */
export const formatCalls = (calls: number): string => `${formatNumber(calls)} ${calls === 1 ? texts.call : texts.calls.toLowerCase()}`

const compactUnits = ['', 'K', 'M', 'B', 'T']

/** `950`, `1.5K`, `20M`: as the axis of a chart has room for. */
export const formatCompact = (value: number): string => {
  let [scaled, unit] = [roundCompact(value), 0]
  for (; scaled >= 1_000 && unit < compactUnits.length - 1; unit += 1) scaled = roundCompact(value / 1_000 ** (unit + 1))
  return `${scaled}${compactUnits[unit] ?? ''}`
}

/** Two digits, or all before the point. */
const roundCompact = (value: number): number => (value < 100 ? roundToTwoDigits(value) : Math.round(value))

/** Halves up as they are written: 1.65 is less in binary, and `toPrecision` makes 1.6 of it. */
const roundToTwoDigits = (value: number): number => {
  const [digits = '', exponent = ''] = value.toExponential().split('e')
  return Number(`${Math.round(Number(`${digits}e1`))}e${Number(exponent) - 1}`)
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** `Jan 31`, UTC. */
export const formatDay = (time: Date): string => `${months[time.getUTCMonth()]} ${time.getUTCDate()}`

/** `Jan 2026`, of `2026-01`. */
export const formatMonth = (month: string): string => `${months[Number(month.slice(5)) - 1]} ${month.slice(0, 4)}`

/** `≈ 3,700`: of what is not counted exactly. */
export const formatEstimate = (value: number): string => (value === 0 ? '0' : `≈\u00a0${formatNumber(roundToTwoDigits(value))}`)

/** `2026-01-31 14:05 UTC`; where it must be broken, after the date. */
export const formatTime = (iso: string | null, withoutTime = '–'): string =>
  iso === null ? withoutTime : `${iso.slice(0, 10)} ${iso.slice(11, 16)}\u00a0UTC`

export const hourMs = 3_600_000

/** `Jan 31, 14:00–15:00 UTC`, `Jan 31, UTC`: what a column of a chart covers. The time alone, of less than a minute. */
export const formatSpan = (iso: string, ms: number): string => {
  const day = `${formatDay(new Date(iso))},`
  if (ms < 60_000) return `${day} ${formatHour(iso)}`
  if (ms >= 24 * hourMs) return `${day} UTC`
  return `${day} ${spanFrom(Date.parse(iso), ms)}\u00a0UTC`
}

const clockOf = (time: number): string => new Date(time).toISOString().slice(11, 16)

/** A line would else end after the dash. */
const spanFrom = (time: number, ms: number): string => `${clockOf(time)}\u2060–\u2060${clockOf(time + ms)}`

const hourFrom = (time: number): string => spanFrom(time, hourMs)

/** `Jan 31, 12:00–13:00 UTC`: of a time of which only the hour is known. The date alone, of what is older than two days. */
export const formatHourOfUse = (iso: string | null, now: number): string => {
  if (iso === null) return texts.never
  const date = iso.slice(0, 10)
  if (now - Date.parse(iso) > 48 * hourMs) return date
  return `${formatDay(new Date(iso))}, ${hourFrom(Date.parse(iso))}\u00a0UTC`
}

/** `12:00` and `14:00`: when hours began, where a title says that it is UTC; `Jan 15 12:00`, both, where one of them is not of today. */
export const formatFirstAndLast = (first: string, last: string, now: number): readonly [first: string, last: string] => {
  const today = new Date(now).toISOString().slice(0, 10)
  const areToday = first.startsWith(today) && last.startsWith(today)
  const format = (iso: string): string => `${areToday ? '' : `${formatDay(new Date(iso))} `}${clockOf(Date.parse(iso))}`
  return [format(first), format(last)]
}

/** `18:00–19:00 compared with 17:00–18:00 UTC`: an hour, and the one before it. */
export const formatHours = (hour: string, comparedWith: string): string =>
  `${hourFrom(Date.parse(hour))} ${comparedWith} ${hourFrom(Date.parse(hour) - hourMs)}\u00a0UTC`

/** `Alice (person)`. */
export const formatAuthor = ({ kind, name }: ChangeAuthor): string => `${name} (${kind})`

/** `14:05 UTC`. */
export const formatHour = (iso: string): string => `${iso.slice(11, 16)} UTC`

/** `since Jan 31, 14:00 UTC`. */
export const formatSince = (iso: string): string => `${texts.since.toLowerCase()} ${formatDay(new Date(iso))}, ${formatHour(iso)}`

/** `2026-01-31 14:05:09`, where a title says that it is UTC. */
export const formatSeconds = (iso: string): string => `${iso.slice(0, 10)} ${iso.slice(11, 19)}`

/** `0.12 ms`, `4.2 ms`, `120 ms`, `1.35 s`. */
export const formatLatency = (ms: number | null | undefined): string => {
  if (ms === null || ms === undefined) return '–'
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(2)}\u00a0s`
  return `${ms.toFixed(ms === 0 || ms >= 10 ? 0 : ms < 1 ? 2 : 1)}\u00a0ms`
}

/** Which node has answered; none is asked for what is cached. */
export const formatNode = ({ upstream, cache }: { readonly upstream: string | null; readonly cache: string | null }): string =>
  upstream ?? (cache === 'hit' ? texts.requests.fromCache : '–')

/** `Invalid params (-32602)`; newer gateways may have more outcomes. */
export const formatOutcome = (outcome: string, code: number | null = null): string => {
  const names: Readonly<Record<string, string>> = texts.outcomes
  const name = names[outcome] ?? outcome
  return code === null ? name : `${name} (${code})`
}

/** `HTTP 402, code -33000`: how a call is answered that the gateway refuses. */
export const formatRefusal = ({ status, code }: { readonly status: number; readonly code: number }): string =>
  `HTTP ${status}, code ${code}`

/** Calls of methods that the gateway does not have are counted together, as `other`. */
export const formatMethod = (name: string): string => (name === 'other' ? texts.usage.unknownMethods : name)

/** `98.60 %`, `0 %`, `100 %`: in a column the points stand below each other. */
export const formatPercent = (percent: number, decimals: number): string =>
  `${percent === 0 || percent === 100 ? percent : percent.toFixed(decimals)}\u00a0%`

/** `99.98 %`; 100 % only where it is all. */
export const formatShare = (part: number, whole: number): string =>
  whole === 0 ? '–' : formatPercent(Math.floor((10_000 * part) / whole) / 100, 2)

/** `14:05:09`, where a title says that it is UTC; `Jan 31 14:05:09` where that is not today. */
export const formatClock = (iso: string, now: number): string => {
  const time = iso.slice(11, 19)
  return iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? time : `${formatDay(new Date(iso))} ${time}`
}

/** `14:05:09 UTC`; with its date where that is not today. */
export const formatMoment = (iso: string, now: number): string => {
  const time = `${iso.slice(11, 19)}\u00a0UTC`
  return iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10) ? time : `${formatDay(new Date(iso))}, ${time}`
}

/** `12 s`, `4 min`, `5 h 12 min`. */
export const formatAge = (ms: number): string => (ms < 60_000 ? `${Math.max(0, Math.floor(ms / 1_000))} s` : formatDuration(ms))

/** From a time that is shown beside it, to the second, up to `end`: what differs by parts of a second has the same age. */
export const formatAgeSince = (iso: string, end: number): string => formatAge(end - 1_000 * Math.floor(Date.parse(iso) / 1_000))

/** `5 h 12 min`. */
export const formatDuration = (ms: number): string => {
  const minutes = Math.max(0, Math.floor(ms / 60_000))
  const hours = Math.floor(minutes / 60)
  return hours > 0 ? `${hours} h ${minutes % 60} min` : `${minutes} min`
}
