import { formatDay } from '../format.ts'

/** Where the axis of time is shorter, in seconds, its times may have seconds. */
const minMinutesSeconds = 300

const secondsPerDay = 86_400

/** So many that at least two stand on the axis of a narrow chart of 10 minutes and more, and one on a shorter one. */
const timeSteps = [
  ...[1, 2, 5, 10, 15, 20, 30],
  ...[1, 2, 5, 10, 15, 20, 30].map(minutes => 60 * minutes),
  ...[1, 2, 3, 4, 6, 8, 12].map(hours => 3_600 * hours),
  ...[1, 2, 3, 4, 5, 7, 10, 14, 30].map(days => secondsPerDay * days),
]

/** From one time on the axis to the next, in seconds: a point at least, and of points that are days, each day stands there once. */
export const timeStepsOf = (rangeSeconds: number, pointSeconds: number): number[] => {
  const least = Math.max(Math.min(pointSeconds, secondsPerDay), rangeSeconds < minMinutesSeconds ? 1 : 60)
  return timeSteps.filter(step => step >= least)
}

/** Px for a time, with seconds or without, and a gap. */
export const timeSpaceOf = (rangeSeconds: number): number => (rangeSeconds < minMinutesSeconds ? 72 : 50)

/** Hours as `14:00`, days as `Jan 31`, UTC. All times of one axis have seconds, or none. */
export const formatTick = (seconds: number, pointSeconds: number, stepSeconds: number): string => {
  const time = new Date(seconds * 1_000)
  if (pointSeconds >= secondsPerDay || seconds % secondsPerDay === 0) return formatDay(time)
  return time.toISOString().slice(11, stepSeconds < 60 ? 19 : 16)
}
