import type { Clock } from '../../services/clock.ts'
import { neverExpires } from '../../store/record-store.ts'
import type { RecordStore, StoredRecord } from '../../store/record-store.ts'
import { storeTimeoutMs } from '../../store/store.ts'
import { singleFlight, withTimeout } from '../../util/async.ts'
import { dayMs, isoDate } from '../../util/dates.ts'
import { toJson } from '../../util/json.ts'
import { getOrCreate } from '../../util/memoize.ts'
import { joinTimes } from '../../util/time-spans.ts'
import type { TimeSpan } from '../../util/time-spans.ts'
import { outageKinds } from './delivery-records.ts'
import type { NetworkAlert } from './delivery-records.ts'
import { operatorsId } from './webhook-signature.ts'

// The outages of networks by day, for their status: incidents are kept for a day alone.

export const outageDays = 90
/** Of a network on a day, about 40 bytes each: at most 180 kB for a network that has so many each day. The last one stands for further ones. */
const maxOutagesOfDay = 50

/** When a network was observed is known in steps of so long. */
const observationStepMs = 300_000
const stepsPerDay = dayMs / observationStepMs

/** Since 1970. */
export const observationStepOf = (now: number): number => Math.floor(now / observationStepMs)

/** Of a day: a hexadecimal number, whose last bit is the first step of the day; once the last 24 hours cannot touch it, how many steps. */
type ObservedSteps = string | number

/** By the day, since 1970. */
type ObservedDays = Readonly<Record<number, ObservedSteps>>

type OutageKind = NetworkAlert['kind']

/** Of one day. In ms since 1970. */
interface DayOutage {
  readonly kind: OutageKind
  readonly began: number
  readonly ended: number
}

/** What a network had on a day, UTC. */
export interface OutageDay {
  /** YYYY-MM-DD */
  readonly date: string
  readonly downSeconds: number
  readonly stalledSeconds: number
}

/** The parts of an outage that lie in one day each. */
const partsOf = ({ kind, began, ended }: DayOutage): readonly DayOutage[] => {
  const parts: DayOutage[] = []
  for (let from = began; from < ended; ) {
    const to = Math.min(ended, (Math.floor(from / dayMs) + 1) * dayMs)
    parts.push({ kind, began: from, ended: to })
    from = to
  }
  return parts
}

/** From this day on gateways on the store see the outages of the network; kept for good. What is known already stays. */
export const recordFirstDay = async (store: Pick<RecordStore, 'addRecord'>, network: string, now: number): Promise<void> => {
  await store.addRecord('outage', firstDayRecord(network, { network, day: Math.floor(now / dayMs), outages: [] }))
}

/** Now a gateway knows how the network is: without calls, none observes it. */
export const recordObserved = async (store: OutageStore, network: string, now: number): Promise<void> => {
  const day = Math.floor(now / dayMs)
  for (;;) {
    const found = await store.findRecord('outage', firstDayId(network))
    const known: RecordedDay = found === undefined ? { network, day, outages: [] } : dayOf(found)
    const { observed = {} } = known
    const ofToday = observed[day] ?? '0'
    // The clock went back by days.
    if (typeof ofToday === 'number') return
    const steps = withStep(ofToday, now)
    if (steps === ofToday) return
    const kept = Object.entries(observed)
      .filter(([each]) => Number(each) > day - outageDays)
      .map(([each, its]) => [each, Number(each) < day - 1 ? countSteps(its) : its])
    const { observedSince, ...others } = known
    const since = kept.length === 0 ? now : observedSince
    const value: RecordedDay = {
      ...others,
      ...(since !== undefined && { observedSince: since }),
      observed: { ...Object.fromEntries(kept), [day]: steps },
    }
    const isWritten =
      found === undefined
        ? await store.addRecord('outage', firstDayRecord(network, value))
        : await store.replaceRecord('outage', found, toJson(value))
    if (isWritten) return
  }
}

const withStep = (steps: string, now: number): string =>
  (BigInt(`0x${steps}`) | (1n << BigInt(observationStepOf(now) % stepsPerDay))).toString(16)

/** With now, of a network that is known now: what is observed is recorded, and read, some time later. */
export const withObservedNow = ([first, ...others]: readonly RecordedDay[], now: number): readonly RecordedDay[] => {
  if (first === undefined) return []
  const day = Math.floor(now / dayMs)
  const known = observationsOf([first, ...others])
  const { observed = {}, observedSince = Object.keys(observed).length === 0 ? now : undefined } = known ?? {}
  const { [day]: steps = '0' } = observed
  const since = observedSince !== undefined && { observedSince }
  const withNow = { ...first, ...since, observed: { ...observed, [day]: typeof steps === 'number' ? steps : withStep(steps, now) } }
  return [withNow, ...others]
}

type OutageStore = Pick<RecordStore, 'addRecord' | 'findRecord' | 'replaceRecord'>

const firstDayId = (network: string): string => `${network} first`

const firstDayRecord = (network: string, value: RecordedDay): StoredRecord => ({
  ...{ id: firstDayId(network), account: operatorsId, value: toJson(value), expires: neverExpires },
})

/** An outage that has ended: once, however often it is recorded. */
export const recordOutage = async (store: OutageStore, { network, ...outage }: DayOutage & { readonly network: string }): Promise<void> => {
  // What lasted longer than is shown begins there.
  const began = Math.max(outage.began, outage.ended - outageDays * dayMs)
  for (const part of partsOf({ ...outage, began })) await addToDay(store, network, part)
}

const addToDay = async (store: OutageStore, network: string, part: DayOutage): Promise<void> => {
  const day = Math.floor(part.began / dayMs)
  const id = `${network} ${isoDate(day * dayMs)}`
  for (;;) {
    const found = await store.findRecord('outage', id)
    const value: RecordedDay = { network, day, outages: withOutage(found === undefined ? [] : dayOf(found).outages, part) }
    const expires = (day + outageDays + 1) * dayMs
    const isWritten =
      found === undefined
        ? await store.addRecord('outage', { id, account: operatorsId, value: toJson(value), expires })
        : await store.replaceRecord('outage', found, toJson(value))
    if (isWritten) return
  }
}

const withOutage = (known: readonly DayOutage[], added: DayOutage): readonly DayOutage[] => {
  const others = known.filter(({ kind, began }) => kind !== added.kind || began !== added.began)
  const last = others.at(-1)
  if (last === undefined || others.length < maxOutagesOfDay) return [...others, added]
  return [...others.slice(0, -1), { ...last, ended: last.ended + added.ended - added.began }]
}

export interface RecordedDay {
  readonly network: string
  /** Since 1970. */
  readonly day: number
  readonly outages: readonly DayOutage[]
  /** Of the record of the first day: when the network was observed, by the days since 1970 of the last 90. At most 1.4 kB, which each step writes anew. */
  readonly observed?: ObservedDays
  /** Beside it: when the first of the steps began to be observed, in ms since 1970. */
  readonly observedSince?: number
}

/** Written above alone. */
const dayOf = ({ value }: StoredRecord): RecordedDay => value as unknown as RecordedDay

/** Of a network, the first day (YYYY-MM-DD) whose outages are recorded; null before there is one. */
export const firstDayOf = (recorded: readonly RecordedDay[]): string | null =>
  recorded.length === 0 ? null : isoDate(Math.min(...recorded.map(({ day }) => day)) * dayMs)

/** Days of which nothing is known (YYYY-MM-DD), from the first to the last of them. */
export interface UnobservedDays {
  readonly from: string
  readonly to: string
}

/** Of one network, since its first day, in the last 90: in order. */
export const unobservedDaysOf = (recorded: readonly RecordedDay[], now: number): readonly UnobservedDays[] => {
  const today = Math.floor(now / dayMs)
  const observed = observedOf(recorded)
  const withOutages = new Set(recorded.filter(({ outages }) => outages.length > 0).map(({ day }) => day))
  const gaps: { from: number; to: number }[] = []
  for (let day = Math.max(today - outageDays + 1, Math.min(...recorded.map(each => each.day))); day <= today; day += 1) {
    if (observed[day] !== undefined || withOutages.has(day)) continue
    const last = gaps.at(-1)
    if (last?.to === day - 1) last.to = day
    else gaps.push({ from: day, to: day })
  }
  return gaps.map(({ from, to }) => ({ from: isoDate(from * dayMs), to: isoDate(to * dayMs) }))
}

/** How long a network was observed, in seconds; what is not is no time without an outage. */
export interface ObservedSeconds {
  readonly last24Hours: number
  readonly last90Days: number
}

export const observedSecondsOf = (recorded: readonly RecordedDay[], now: number): ObservedSeconds => {
  const observed = observedOf(recorded)
  const today = Math.floor(now / dayMs)
  const since = observedSinceOf(recorded) ?? 0
  // Anyone may ask for it, of all networks: of 500 it takes 10 ms.
  const secondsFrom = (first: number): number => {
    const from = Math.max(first, since)
    let sum = 0
    for (let day = Math.floor(from / dayMs); day <= today; day += 1) sum += observedMs(day * dayMs, observed[day] ?? 0, from, now)
    return Math.round(sum / 1_000)
  }
  return { last24Hours: secondsFrom(now - dayMs), last90Days: secondsFrom((today - outageDays + 1) * dayMs) }
}

/** When a network was observed first, in the last 90 days, in ms since 1970; where that is longer ago, the beginning of the first of the days. */
export const observedSinceOf = (recorded: readonly RecordedDay[]): number | undefined => {
  const [first] = Object.entries(observedOf(recorded)).toSorted(([one], [other]) => Number(one) - Number(other))
  if (first === undefined) return undefined
  const [day, steps] = first
  const step =
    typeof steps === 'number'
      ? 0
      : Array.from(BigInt(`0x${steps}`).toString(2))
          .toReversed()
          .indexOf('1')
  return Math.max(Number(day) * dayMs + Math.max(0, step) * observationStepMs, observationsOf(recorded)?.observedSince ?? 0)
}

/** One of the records has it. */
const observationsOf = (recorded: readonly RecordedDay[]) => recorded.find(({ observed }) => observed !== undefined)

const observedOf = (recorded: readonly RecordedDay[]): ObservedDays => observationsOf(recorded)?.observed ?? {}

const countSteps = (steps: ObservedSteps): number => observedMs(0, steps, 0, dayMs) / observationStepMs

/** Of the day that begins at `start`, between the two times; those of a day of which their number alone is known are between them. */
const observedMs = (start: number, steps: ObservedSteps, from: number, to: number): number => {
  if (typeof steps === 'number') return steps * observationStepMs
  const overlapMs = (began: number, lengthMs: number): number => Math.max(0, Math.min(to, began + lengthMs) - Math.max(from, began))
  let sum = 0
  for (let i = 0; i < steps.length; i += 1) {
    const began = start + 4 * i * observationStepMs
    const digit = Number.parseInt(steps.charAt(steps.length - 1 - i), 16)
    // As most are, of a network that is called all the time.
    if (digit === 0xf) sum += overlapMs(began, 4 * observationStepMs)
    else for (let bit = 0; bit < 4; bit += 1) if ((digit >> bit) & 1) sum += overlapMs(began + bit * observationStepMs, observationStepMs)
  }
  return sum
}

/** Longer than it takes until an outage that has ended is recorded, and the record is read: no gateway may see it any more, rounds and reads are rare. */
const maxRecordDelayMs = 600_000

/** As a gateway has seen it. */
export interface SeenOutage extends TimeSpan {
  readonly kind: OutageKind
}

/** The days of one network that had outages, in order: those that were recorded, and of those seen what lasts, or has just ended and is not recorded yet. */
export const outageDaysOf = (recorded: readonly RecordedDay[], seen: readonly SeenOutage[], now: number): readonly OutageDay[] => {
  const first = Math.floor(now / dayMs) - outageDays + 1
  const known = recorded.flatMap(({ outages }) => outages)
  const isRecorded = ({ kind, began }: SeenOutage, ended: number): boolean =>
    known.some(each => each.kind === kind && each.began < ended && began < each.ended)
  const added = seen.flatMap(outage => {
    const { ended = now } = outage
    const isWanted = outage.ended === undefined || (ended > now - maxRecordDelayMs && !isRecorded(outage, ended))
    return isWanted ? partsOf({ ...outage, ended }) : []
  })
  const parts = [...known, ...added]
  return [...groupBy(parts, ({ began }) => Math.floor(began / dayMs))]
    .filter(([day]) => day >= first)
    .sort(([a], [b]) => a - b)
    .map(([day, its]) => ({
      date: isoDate(day * dayMs),
      downSeconds: secondsOf(its, 'down'),
      stalledSeconds: secondsOf(its, 'stalled'),
    }))
}

/** The outages of one network in the last day: also what a gateway has recorded of them before this one was started, or where it saw less of one. */
export const outagesOfLastDay = (recorded: readonly RecordedDay[], seen: readonly SeenOutage[], now: number): readonly SeenOutage[] => {
  const known = [...recorded.flatMap(({ outages }) => outages), ...seen]
  return outageKinds.flatMap(kind =>
    joinTimes(known.filter(each => each.kind === kind))
      .filter(({ ended = now }) => ended > now - dayMs)
      .map(time => ({ kind, ...time })),
  )
}

const groupBy = <T, Key>(values: readonly T[], keyOf: (value: T) => Key): ReadonlyMap<Key, readonly T[]> => {
  const groups = new Map<Key, T[]>()
  for (const value of values) getOrCreate(groups, keyOf(value), (): T[] => []).push(value)
  return groups
}

const secondsOf = (parts: readonly DayOutage[], wanted: OutageKind): number =>
  Math.min(dayMs / 1_000, Math.round(parts.reduce((sum, { kind, began, ended }) => sum + (kind === wanted ? ended - began : 0), 0) / 1_000))

/** Anyone may ask for the status of networks: the store is asked no more often. */
const readIntervalMs = 60_000
/** Until there is something, as in the first seconds of a store. */
const firstReadIntervalMs = 1_000

export type OutageHistory = () => Promise<ReadonlyMap<string, readonly RecordedDay[]> | undefined>

/** By network. Undefined while the store has not answered yet: the status of networks is shown without it. */
export const openOutageHistory = (store: Pick<RecordStore, 'records'>, clock: Clock): OutageHistory => {
  let known: ReadonlyMap<string, readonly RecordedDay[]> | undefined
  let readAt = -Infinity
  const read = singleFlight(async () => {
    readAt = clock.monotonic()
    const records = await withTimeout(clock, storeTimeoutMs, Promise.resolve(store.records('outage', operatorsId)))
    known = groupBy(records.map(dayOf), ({ network }) => network)
  })
  return async () => {
    const intervalMs = known === undefined || known.size === 0 ? firstReadIntervalMs : readIntervalMs
    if (clock.monotonic() - readAt >= intervalMs) await read().catch(() => undefined)
    return known
  }
}
