import type { UsageSeries } from '../../queries/usage-queries.ts'
import type { OwnKeyJson } from '../../routes/keys.ts'
import type { UsageAnswer } from '../../routes/usage.ts'
import { Chart } from '../components/chart.tsx'
import { Select, WhenLoaded } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { queryMember } from '../router.ts'
import { texts } from '../texts.ts'

const text = texts.usage

export const ranges = ['24h', '7d', '30d', '90d'].map(value => ({ value, label: value.replace('h', ' hours').replace('d', ' days') }))

const dimensions = (['method', 'network', 'key', 'outcome'] as const).map(value => ({ value, label: text[value] }))

export const Usage = () => {
  const range = queryMember('range', '24h')
  const by = queryMember('by', 'method')
  const report = useRequest<UsageAnswer>(`/usage?range=${range.value}&by=${by.value}`)
  const keys = useRequest<readonly OwnKeyJson[]>('/keys')
  const found = report.data.value
  const keysById = new Map(keys.data.value?.map(key => [key.id, key]))
  // The groups of the report, which may not be those that were just chosen: the answer takes its time.
  const isByKey = found?.by === 'key'
  /** Keys may have the same name, as a key and the one that was rotated. */
  const nameOf = ({ name: id }: UsageSeries) => {
    const key = isByKey ? keysById.get(id) : undefined
    return key === undefined ? id : `${key.name} …${key.hint}`.trim()
  }
  const keyCells = ({ name: id }: UsageSeries) => [keysById.get(id)?.name ?? '', keysById.get(id)?.hint ?? '', id]
  return (
    <>
      <div class="controls">
        <Select label={text.range} options={ranges} value={range.value} onChange={range.set} />
        <Select label={text.by} options={dimensions} value={by.value} onChange={by.set} />
        {found !== undefined && (
          <Downloads
            name={`usage-by-${found.by}`}
            titles={[...(isByKey ? ['key', 'hint', 'id'] : [found.by]), 'calls', 'credits', 'forwarded']}
            read={() => ({
              json: found,
              rows: found.groups.map(row => [...(isByKey ? keyCells(row) : [row.name]), row.calls, row.credits, row.forwarded]),
            })}
          />
        )}
      </div>
      <WhenLoaded from={report}>
        {shown =>
          shown.groups.length === 0 ? (
            <p>{text.none}</p>
          ) : (
            <>
              <Chart title={text.callsOverTime} times={shown.times} points={shown.total.points.calls} />
              <UsageTable report={shown} nameOf={nameOf} />
            </>
          )
        }
      </WhenLoaded>
    </>
  )
}

interface UsageTableProps {
  readonly report: UsageAnswer
  nameOf(series: UsageSeries): string
}

const UsageTable = ({ report: { by, groups, total }, nameOf }: UsageTableProps) => (
  <Table
    caption={`${texts.pages.usage} ${text.by} ${text[by]}`}
    keyOf={row => row.name}
    rows={groups}
    total={{ ...total, name: text.total }}
    columns={[
      { title: text[by], cell: row => <code>{nameOf(row)}</code> },
      { title: texts.calls, isNumber: true, cell: row => formatNumber(row.calls) },
      { title: texts.credits, isNumber: true, cell: row => formatNumber(row.credits) },
      { title: text.share, isNumber: true, cell: row => `${((100 * row.credits) / Math.max(1, total.credits)).toFixed(1)} %` },
      { title: text.forwarded, isNumber: true, cell: row => formatNumber(row.forwarded) },
    ]}
  />
)
