import { useComputed } from '@preact/signals'
import type { TrafficGroup, TrafficReport } from '../../operations/usage-operations.ts'
import { now } from '../clock.ts'
import { WhenLoaded } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { formatNumber, formatSpan, hourMs } from '../format.ts'
import { useRequest } from '../request.ts'
import { CallsOverTime, describeCalls } from './calls-over-time.tsx'
import { formatShare } from './format-figures.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.traffic

const dayMs = 24 * hourMs

/** Hours of twice as many are kept, to compare with. */
const maxHoursByHour = 168

/** Calls of all accounts over time, with their peak, and how many more they are than before; nothing of a single hour. */
export const TrafficOverTime = ({ hours }: { readonly hours: number }) => {
  const hour = useComputed(() => Math.floor(now.value / hourMs)).value
  return hours > 1 ? <Drawn key={`${hours} ${hour}`} hours={hours} /> : null
}

/** Read once an hour: it is as much again as the table below it. */
const Drawn = ({ hours }: { readonly hours: number }) => {
  const isByDay = hours > maxHoursByHour
  const query = isByDay ? { by: 'day', hours: String(hours) } : { by: 'hour', hours: String(2 * hours) }
  const report = useRequest<TrafficReport>(`/usage?${new URLSearchParams({ ...query, limit: '1000' })}`, Infinity)
  return (
    <WhenLoaded from={report} skeleton={<Skeleton height={14} />}>
      {({ from, groups }) => {
        const stepMs = isByDay ? dayMs : hourMs
        // What was asked for ends with the hour in which it was read.
        const end = Math.ceil((Date.parse(from) + Number(query.hours) * hourMs) / stepMs) * stepMs
        const first = isByDay ? Math.floor(Date.parse(from) / dayMs) * dayMs : end - hours * hourMs
        const shown = groups.filter(({ name }) => Date.parse(name) >= first)
        if (shown.length === 0) return null
        const note = [describeCalls(sumOf(shown)), describePeak(shown, stepMs)]
        if (!isByDay) note.push(describeChange(groups, end - hourMs, hours))
        return (
          <CallsOverTime
            {...{ first, end, stepMs, groups: shown, note: note.filter(Boolean).join('; ') }}
            beginsAt={Date.parse(from) > first ? from : undefined}
          />
        )
      }}
    </WhenLoaded>
  )
}

const sumOf = (groups: readonly TrafficGroup[]) =>
  groups.reduce(
    (sum, { calls, failed, byGateway }) => ({
      calls: sum.calls + calls,
      failed: sum.failed + failed,
      byGateway: sum.byGateway + byGateway,
    }),
    { calls: 0, failed: 0, byGateway: 0 },
  )

const describePeak = (groups: readonly TrafficGroup[], stepMs: number): string => {
  const peak = groups.reduce((most, each) => (each.calls > most.calls ? each : most))
  return `${text.peak} ${formatNumber(peak.calls)} (${formatSpan(new Date(peak.name).toISOString(), stepMs)})`
}

/** Of hours that are over, and the same hours of the day or week before; empty where nothing was called then. */
const describeChange = (groups: readonly TrafficGroup[], end: number, hours: number): string => {
  const callsOf = (from: number, to: number): number =>
    sumOf(groups.filter(({ name }) => Date.parse(name) >= from && Date.parse(name) < to)).calls
  const [first, shift] = [end - (hours - 1) * hourMs, hours * hourMs]
  const [calls, before] = [callsOf(first, end), callsOf(first - shift, end - shift)]
  if (before === 0) return ''
  return `${calls < before ? '−' : '+'}${formatShare(Math.abs(calls - before) / before)} ${text.than[hours === maxHoursByHour ? 'week' : 'day']}`
}
