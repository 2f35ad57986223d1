import { useSignal } from '@preact/signals'
import type { Key, Usage as UsageReport, UsageSeries } from '../api.ts'
import { Chart } from '../components/chart.tsx'
import { Notice, Select } from '../components/controls.tsx'
import { Table } from '../components/table.tsx'
import { downloadCsv, downloadJson } from '../download.ts'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'
import { useRequest } from '../use-request.ts'

const text = texts.usage

export const ranges = ['24h', '7d', '30d', '90d']

const dimensions = (['method', 'network', 'key', 'outcome'] as const).map(value => ({ value, label: text[value] }))

export const Usage = () => {
  const range = useSignal('24h')
  const by = useSignal('method')
  const report = useRequest<UsageReport>(`/usage?range=${range.value}&by=${by.value}`)
  const keys = useRequest<readonly Key[]>('/keys')
  const found = report.data.value
  const keyNames = new Map(keys.data.value?.map(({ id, name, hint }) => [id, name === '' ? `…${hint}` : name]))
  const nameOf = ({ name }: UsageSeries) => (by.value === 'key' ? (keyNames.get(name) ?? name) : name)
  return (
    <>
      <div class="controls">
        <Select label={text.range} options={ranges} value={range.value} onChange={value => (range.value = value)} />
        <Select label={text.by} options={dimensions} value={by.value} onChange={value => (by.value = value)} />
        {found !== undefined && (
          <div class="buttons">
            <button type="button" onClick={() => downloadCsv(found, nameOf)}>
              {text.download} CSV
            </button>
            <button type="button" onClick={() => downloadJson(found)}>
              {text.download} JSON
            </button>
          </div>
        )}
      </div>
      <Notice text={report.error.value} />
      {found === undefined ? (
        <p>{texts.loading}</p>
      ) : found.groups.length === 0 ? (
        <p>{text.none}</p>
      ) : (
        <>
          <Chart title={text.callsOverTime} times={found.times} points={found.total.points} />
          <UsageTable report={found} nameOf={nameOf} title={dimensions.find(({ value }) => value === by.value)?.label ?? by.value} />
        </>
      )}
    </>
  )
}

interface UsageTableProps {
  readonly report: UsageReport
  readonly title: string
  nameOf(series: UsageSeries): string
}

const UsageTable = ({ report: { groups, total }, title, nameOf }: UsageTableProps) => (
  <Table
    caption={`${texts.pages.usage} ${text.by} ${title}`}
    keyOf={row => row.name}
    rows={[...groups, { ...total, name: text.total }]}
    columns={[
      { title, cell: row => <code>{nameOf(row)}</code> },
      { title: texts.calls, isNumber: true, cell: row => formatNumber(row.calls) },
      { title: texts.credits, isNumber: true, cell: row => formatNumber(row.credits) },
      { title: text.share, isNumber: true, cell: row => `${((100 * row.credits) / Math.max(1, total.credits)).toFixed(1)} %` },
      { title: text.forwarded, isNumber: true, cell: row => formatNumber(row.forwarded) },
    ]}
  />
)
