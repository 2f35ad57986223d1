import type { ActivityJson } from '../../operator/overview-routes.ts'
import { LineCharts } from '../components/chart.tsx'
import type { ChartSeries, LineChartsProps } from '../components/chart.tsx'
import { now } from '../clock.ts'
import { formatMoment } from '../format.ts'
import { formatShare } from './format-figures.ts'
import { operatorTexts } from './operator-texts.ts'

// What Home and Nodes draw of the activity of this gateway.

const text = operatorTexts.home

const activityRangesMs = { '1h': 3_600_000, '24h': 86_400_000 } as const

export const activityRanges = [
  { value: '1h', label: text.ranges['1h'] },
  { value: '24h', label: text.ranges['24h'] },
]

/** Of the address, which may have anything. */
export const rangeOf = (range: string): keyof typeof activityRangesMs => (range === '24h' ? '24h' : '1h')

interface ActivityLinesProps {
  readonly activity: ActivityJson
  readonly range: keyof typeof activityRangesMs
  readonly charts: LineChartsProps['charts']
}

/** Charts of the whole range; what was before the start of this gateway stands on gray ground. */
export const ActivityLines = ({ activity: { times, lastIsRunning, started, earlierPoints }, range, charts }: ActivityLinesProps) => {
  const rangeMs = activityRangesMs[range]
  return (
    <>
      {now.value - Date.parse(started) < rangeMs && (
        <p class="lead">
          {text.startedAt} {formatMoment(started, now.value)}
          {earlierPoints > 0 ? text.fromUsage : text.nothingBefore}
        </p>
      )}
      <LineCharts {...{ times, rangeMs, charts }} isRunning={lastIsRunning} grayUntil={started} />
    </>
  )
}

export const line = (name: string, points: ChartSeries['points'], color = 'data'): ChartSeries => ({ id: name, name, points, color })

/** On an axis of its own: beside the number of calls, few failures are a line along the bottom. */
export const failedShareChart = ({ callsPerSecond, failedPerSecond }: ActivityJson['calls']) => ({
  title: text.failedShare,
  format: formatShare,
  least: 0.05,
  series: [
    line(
      operatorTexts.gatewayErrors,
      failedPerSecond.map((failed, at) => {
        const calls = callsPerSecond[at] ?? 0
        return failed === null || calls === 0 ? null : failed / calls
      }),
      'danger',
    ),
  ],
})
