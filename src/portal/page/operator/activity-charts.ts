import type { ActivityJson } from '../../operator/overview-routes.ts'
import type { ChartSeries } from '../components/chart.tsx'
import { formatShare } from './format-figures.ts'
import { operatorTexts } from './operator-texts.ts'

// What Home and Nodes draw of the activity of this gateway.

const text = operatorTexts.home

export const activityRangesMs = { '1h': 3_600_000, '24h': 86_400_000 } as const

export const activityRanges = [
  { value: '1h', label: text.ranges['1h'] },
  { value: '24h', label: text.ranges['24h'] },
]

/** Of the address, which may have anything. */
export const rangeOf = (range: string): keyof typeof activityRangesMs => (range === '24h' ? '24h' : '1h')

export const line = (name: string, points: ChartSeries['points'], color = 'data'): ChartSeries => ({ id: name, name, points, color })

/** On an axis of its own: beside the number of calls, few failures are a line along the bottom. */
export const failedShareChart = ({ callsPerSecond, failedPerSecond }: ActivityJson['calls']) => ({
  title: text.failedShare,
  format: formatShare,
  series: [
    line(
      text.failedCalls,
      failedPerSecond.map((failed, at) => {
        const calls = callsPerSecond[at] ?? 0
        return failed === null || calls === 0 ? null : failed / calls
      }),
      'danger',
    ),
  ],
})
