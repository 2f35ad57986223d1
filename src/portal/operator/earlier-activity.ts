import { roundFigure } from '../../services/traffic/history.ts'
import type { Activity } from '../../services/traffic/history.ts'
import { StoreError } from '../../store/store.ts'
import { usagePeriodsMs } from '../../store/usage-store.ts'
import { dayMs, hourMs } from '../../util/dates.ts'
import type { OperatorServices } from './operator-route.ts'

/** Throws what is no StoreError. */
export const undefinedWithoutStore = (error: unknown): undefined => {
  if (error instanceof StoreError) return undefined
  throw error
}

const rangesOfUsage = { '1h': { period: 'fiveMinutes', rangeMs: hourMs }, '24h': { period: 'hour', rangeMs: dayMs } } as const

/** The monotonic clock begins with the process. In ms since 1970. */
export const startOf = (clock: OperatorServices['clock']): number => 1_000 * Math.round((clock.now() - clock.monotonic()) / 1_000)

/** What usage has of the time before the start, from the first call on; nothing while the store is unreachable. */
export const readEarlier = async (
  range: keyof typeof rangesOfUsage,
  { clock, queries }: Pick<OperatorServices, 'clock' | 'queries'>,
): Promise<readonly EarlierPoint[]> => {
  const { period, rangeMs } = rangesOfUsage[range]
  const periodMs = usagePeriodsMs[period]
  const [now, start] = [clock.now(), startOf(clock)]
  const [from, to] = [Math.floor((now - rangeMs) / periodMs), Math.ceil(start / periodMs)]
  if (from >= to) return []
  const traffic = (await queries.trafficOverTime({ period, from, to }).catch(undefinedWithoutStore)) ?? []
  const first = traffic.findIndex(({ calls }) => calls > 0)
  const [known] = traffic.slice(first < 0 ? traffic.length : first)
  // Calls of the period of the start alone may all be from after it.
  if (known === undefined || (known.start + 1) * periodMs > start) return []
  const points = traffic.slice(first).map((each): EarlierPoint => {
    const [began, ended] = [each.start * periodMs, (each.start + 1) * periodMs]
    const seconds = (Math.min(ended, now) - began) / 1_000
    return {
      time: Math.min(ended, start),
      callsPerSecond: each.calls / seconds,
      failedPerSecond: each.failedCalls / seconds,
      creditsPerSecond: each.credits / seconds,
      p50Ms: each.p50Ms,
      p95Ms: each.p95Ms,
    }
  })
  // No line leads from what usage has to what this gateway has. Each point has a time of its own.
  return [...points, { time: start + 1 }]
}

type EarlierPoint = { readonly time: number } & { readonly [Name in keyof Activity['calls']]?: number | null }

export const withEarlier = ({ times, calls, gateway, ...others }: Activity, earlier: readonly EarlierPoint[]): Activity => ({
  times: [...earlier.map(({ time }) => time), ...times],
  calls: prepend(earlier, calls),
  gateway: prepend(earlier, gateway),
  ...others,
})

/** What usage does not have is null. */
const prepend = <Series extends Activity['calls' | 'gateway']>(
  earlier: readonly { readonly [name: string]: number | null }[],
  series: Series,
): Series =>
  // Each series keeps its name.
  Object.fromEntries(
    Object.entries(series).map(([name, points]) => [name, [...earlier.map(each => roundFigure(each[name] ?? null)), ...points]]),
  ) as never
