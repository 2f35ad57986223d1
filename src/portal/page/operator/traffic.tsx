import { useSignal } from '@preact/signals'
import type { TrafficGroup, TrafficReport } from '../../operator/operator-reports.ts'
import { Select, WhenLoaded } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { Pager, Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.traffic

const { method, network, key, outcome } = texts.usage
const dimensions = Object.entries({ account: text.account, method, network, key, outcome }).map(([value, label]) => ({ value, label }))
const ranges = Object.entries(text.ranges).map(([value, label]) => ({ value, label }))

const groupsPerPage = 100

/** An account by its name; one that no longer exists by its id. */
const nameOf = ({ name, account }: TrafficGroup): string => account || name

export const Traffic = () => {
  const by = useSignal('account')
  const hours = useSignal('24')
  const offset = useSignal(0)
  const query = { by: by.value, hours: hours.value, offset: String(offset.value), limit: String(groupsPerPage) }
  const report = useRequest<TrafficReport>(`/usage?${new URLSearchParams(query)}`)
  const found = report.data.value
  const choose = (signal: typeof by) => (value: string) => {
    signal.value = value
    offset.value = 0
  }
  return (
    <>
      <div class="controls">
        <Select label={text.by} options={dimensions} value={by.value} onChange={choose(by)} />
        <Select label={text.range} options={ranges} value={hours.value} onChange={choose(hours)} />
        {found !== undefined && (
          <Downloads
            name={`traffic-by-${found.by}`}
            titles={[found.by, 'calls', 'credits', 'forwarded']}
            read={() => ({ json: found, rows: found.groups.map(group => [nameOf(group), group.calls, group.credits, group.forwarded]) })}
          />
        )}
      </div>
      <WhenLoaded from={report}>
        {shown => (shown.groups.length === 0 ? <p>{texts.usage.none}</p> : <TrafficTable report={shown} />)}
      </WhenLoaded>
      <Pager offset={offset} size={groupsPerPage} count={found?.groupCount ?? 0} />
    </>
  )
}

const TrafficTable = ({ report: { by, groups } }: { readonly report: TrafficReport }) => (
  <Table
    caption={operatorTexts.pages.traffic}
    keyOf={group => group.name}
    rows={groups}
    columns={[
      { title: dimensions.find(({ value }) => value === by)?.label ?? by, cell: group => <code>{nameOf(group)}</code> },
      { title: texts.calls, isNumber: true, cell: group => formatNumber(group.calls) },
      { title: texts.credits, isNumber: true, cell: group => formatNumber(group.credits) },
      { title: texts.usage.forwarded, isNumber: true, cell: group => formatNumber(group.forwarded) },
    ]}
  />
)
