import type { UsageTotals } from '../../../services/account-reports.ts'
import { Chart, failedSeries, groupColor } from '../components/chart.tsx'
import { formatCalls } from '../format.ts'
import { texts } from '../texts.ts'
import { formatFaults } from './format-figures.ts'
import { operatorTexts } from './operator-texts.ts'

type CallSums = Pick<UsageTotals, 'calls' | 'failed' | 'byGateway'>

/** `1,234 calls; gateway errors 3, caller errors 20`. */
export const describeCalls = ({ calls, failed, byGateway }: CallSums): string => {
  return formatCalls(calls) + formatFaults({ byGateway, byCaller: failed - byGateway })
}

interface CallsOverTimeProps {
  /** In ms since 1970, up to, not including, `end`. */
  readonly first: number
  readonly end: number
  readonly stepMs: number
  /** By hour or day; one is missing where there were no calls. */
  readonly groups: readonly UsageTotals[]
  readonly note: string
  /** ISO 8601: of which time the first step is, where that is not all of it. */
  readonly beginsAt?: string | undefined
}

const noCalls: CallSums = { calls: 0, failed: 0, byGateway: 0 }

export const CallsOverTime = ({ first, end, stepMs, groups, note, beginsAt }: CallsOverTimeProps) => {
  const byStart = new Map(groups.map(group => [Date.parse(group.name), group]))
  const starts = Array.from({ length: Math.max(1, Math.round((end - first) / stepMs)) }, (_, i) => first + i * stepMs)
  const pointsOf = (measure: (sums: CallSums) => number): readonly number[] => starts.map(start => measure(byStart.get(start) ?? noCalls))
  return (
    <Chart
      title={texts.usage.titles.calls}
      note={note}
      isCompact
      times={starts.map(start => new Date(start).toISOString())}
      beginsAt={beginsAt}
      end={new Date(first + starts.length * stepMs).toISOString()}
      series={[
        { ...failedSeries(pointsOf(({ byGateway }) => byGateway)), name: operatorTexts.gatewayErrors },
        {
          id: 'by-caller',
          name: operatorTexts.callerErrors,
          color: groupColor(Infinity),
          points: pointsOf(({ failed, byGateway }) => failed - byGateway),
        },
        { id: 'ok', name: texts.usage.success, color: groupColor(0), points: pointsOf(({ calls, failed }) => calls - failed) },
      ]}
    />
  )
}
