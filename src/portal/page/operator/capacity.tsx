import type { CapacityJson, Resource } from '../../operator/capacity.ts'
import { WhenLoaded } from '../components/controls.tsx'
import { Bar, toneOfUse } from '../components/figure.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { now } from '../clock.ts'
import { formatMoment } from '../format.ts'
import { useRequest } from '../request.ts'
import { formatCores, formatCount, formatMiB, formatPart, formatRate, formatShare } from './format-figures.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.capacity

const formats = {
  callsPerSecond: formatRate,
  cpu: formatCores,
  memory: formatMiB,
  callerMemory: formatMiB,
  connections: formatCount,
  openFiles: formatCount,
  storeMemory: formatPart,
  storeClients: formatPart,
  storeDisk: formatPart,
} as const satisfies Readonly<Record<Resource['resource'], (value: number | null) => string>>

/** What is used of what there is. */
export const Capacity = () => (
  <>
    <h2>{text.title}</h2>
    <WhenLoaded from={useRequest<CapacityJson>('/overview/capacity')} skeleton={<Skeleton height={16} />}>
      {({ since, resources, growth }) => (
        <>
          <Table
            caption={text.title}
            keyOf={({ resource }) => resource}
            rows={resources}
            columns={[
              { title: text.resource, cell: ({ resource }) => text.resources[resource] },
              { title: text.now, isNumber: true, cell: ({ resource, used }) => formats[resource](used) },
              { title: `${text.peak} ${formatMoment(since, now.value)}`, isNumber: true, cell: resource => <Peak of={resource} /> },
              { title: text.limit, isNumber: true, cell: resource => formatLimit(resource) },
              { title: text.used, isNumber: true, cell: resource => <Share of={resource} /> },
            ]}
          />
          <p class="lead">
            {text.how} {text.calls} {describeGrowth(growth)}
          </p>
        </>
      )}
    </WhenLoaded>
  </>
)

const Peak = ({ of: { resource, peak, peakAt } }: { readonly of: Resource }) =>
  peakAt && (
    <>
      {formats[resource](peak)} <span class="since">{formatMoment(peakAt, now.value)}</span>
    </>
  )

const formatLimit = ({ resource, limit }: Resource): string =>
  resource === 'callsPerSecond' && limit !== null ? `${text.atLeast} ${formatRate(limit)}` : formats[resource](limit)

/** Of the limit, at the peak where that is known. */
const Share = ({ of: { resource, used, peak, limit } }: { readonly of: Resource }) => {
  const most = peak ?? used
  if (most === null || limit === null) return null
  return (
    <>
      {formatShare(most / limit)}
      <Bar label={`${text.used}: ${text.resources[resource]}`} value={most} max={limit} tone={toneOfUse(most, limit)} isThin />
    </>
  )
}

/** `+3.1 % a week, by the last 28 days. At that rate, the peak reaches the limit 2027-03-04.` */
const describeGrowth = ({ days, perWeek, reachedAt }: CapacityJson['growth']): string => {
  if (days === 0) return text.unknown
  if (perWeek === null) return `${text.steady} ${days} ${text.days}.`
  const change = `${perWeek < 0 ? '−' : '+'}${formatShare(Math.abs(perWeek))} ${text.grow} ${days} ${text.days}.`
  return `${change} ${reachedAt === null ? text.notReached : `${text.reached} ${reachedAt.slice(0, 10)}.`}`
}
