const numberFormat = new Intl.NumberFormat('en')

export const formatNumber = (value: number | null): string => (value === null ? '–' : numberFormat.format(value))

/** `2026-01-31 14:05 UTC`; where it must be broken, after the date. */
export const formatTime = (iso: string | null, withoutTime = '–'): string =>
  iso === null ? withoutTime : `${iso.slice(0, 10)} ${iso.slice(11, 16)}\u00a0UTC`

/** `2026-01-15 12:00–13:00 UTC`: of a time of which only the hour is known. */
export const formatHourOfDay = (iso: string | null, withoutTime = '–'): string => {
  if (iso === null) return withoutTime
  const end = new Date(Date.parse(iso) + 3_600_000).toISOString()
  return `${iso.slice(0, 10)} ${iso.slice(11, 16)}–${end.slice(11, 16)}\u00a0UTC`
}

/** `14:05 UTC`. */
export const formatHour = (iso: string): string => `${iso.slice(11, 16)} UTC`

/** `5 h 12 min`. */
export const formatDuration = (ms: number): string => {
  const minutes = Math.max(0, Math.floor(ms / 60_000))
  const hours = Math.floor(minutes / 60)
  return hours > 0 ? `${hours} h ${minutes % 60} min` : `${minutes} min`
}
