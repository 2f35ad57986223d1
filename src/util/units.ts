/** In ms, from the smallest to the largest. */
export const durationUnits = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** In bytes, from the smallest to the largest. */
export const sizeUnits = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 }

export type Units = Readonly<Record<string, number>>

/** As configuration files have it: `9s`, `250ms`. */
export const formatDuration = (ms: number): string => formatInUnits(ms, durationUnits) ?? `${ms}ms`

/** As configuration files have it: `32MiB`. */
export const formatSize = (bytes: number): string => formatInUnits(bytes, sizeUnits) ?? `${bytes}B`

/** For people: `2,747,900`. */
export const formatCount = (count: number): string => count.toLocaleString('en-US')

/** In the largest unit in which it is a whole number; undefined where there is none. */
export const formatInUnits = (value: number, units: Units): string | undefined => {
  const [name, factor = 1] = Object.entries(units).findLast(([, each]) => isNearlyInteger(value / each) && value >= each) ?? []
  return name === undefined ? undefined : `${Math.round(value / factor)}${name}`
}

/** Nearly: a sixtieth is no exact number. */
export const isNearlyInteger = (value: number): boolean => Math.abs(value - Math.round(value)) < 1e-6
