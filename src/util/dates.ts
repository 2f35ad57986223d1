/** Milliseconds since 1970 as people and programs read them (ISO 8601, UTC). */
export const isoTime = (time: number): string => new Date(time).toISOString()

/** The day of that moment, YYYY-MM-DD, UTC. */
export const isoDate = (time: number): string => isoTime(time).slice(0, 10)

/** Days are UTC days, which have no other length. */
export const dayMs = 86_400_000
export const hourMs = 3_600_000
export const hoursPerDay = dayMs / hourMs

export const isoTimeOrNull = (time: number | undefined): string | null => (time === undefined ? null : isoTime(time))
