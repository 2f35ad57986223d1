import { invalidField } from './api-errors.ts'

/** Of a member of a request, in ms since 1970. Throws ApiError. */
export const parseTime = (field: string, text: string): number => {
  const parsed = Date.parse(text)
  if (Number.isNaN(parsed) || parsed < 0) throw invalidField(field, 'must be a time such as 2026-01-15T12:00:00Z')
  return parsed
}
