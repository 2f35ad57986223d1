import { parseDuration } from '../../config/formats.ts'
import { dayMs } from '../../util/dates.ts'
import { invalidField } from '../api-errors.ts'

/** A longer one would end after the last date that there is. */
const maxDays = 36_500

/** In ms. Throws ApiError. */
export const toPositiveDuration = (field: string, duration: string, alternative = ''): number => {
  const durationMs = parseDuration(duration)
  if (durationMs !== undefined && durationMs > maxDays * dayMs) throw invalidField(field, `must be at most ${maxDays}d, not "${duration}"`)
  if (durationMs !== undefined && durationMs > 0) return durationMs
  throw invalidField(field, `must be a duration such as 30d or 12h${alternative}, not "${duration}"`)
}
