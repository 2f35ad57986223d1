import type { TrafficGroup, TrafficReport } from '../../operations/usage-operations.ts'
import { Select, WhenLoaded } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Pager } from '../components/table.tsx'
import { useRequest } from '../request.ts'
import { changeQuery, pagerOffset, queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { GroupTable, dimensions, rangeOptions } from './group-table.tsx'
import { operatorTexts } from './operator-texts.ts'
import { TrafficOverTime } from './traffic-over-time.tsx'

const text = operatorTexts.traffic

const groupsPerPage = 100

/** An account by its name; one that no longer exists by its id. */
const nameOf = ({ name, account }: TrafficGroup): string => account || name

const columnsOfCsv = ['calls', 'credits', 'forwarded', 'failed', 'byGateway', 'p50Ms', 'p95Ms', 'p99Ms'] as const

const cellsOf = (group: TrafficGroup) => [nameOf(group), ...columnsOfCsv.map(column => group[column] ?? '')]

export const Traffic = () => {
  const [by, hours, first] = [queryMember('by', 'account'), queryMember('hours', '24'), queryMember('first', '0')]
  const sort = queryMember('sort', 'credits')
  const query = { by: by.value, hours: hours.value, sort: sort.value, offset: first.value, limit: String(groupsPerPage) }
  const report = useRequest<TrafficReport>(`/usage?${new URLSearchParams(query)}`)
  const found = report.data.value
  return (
    <>
      <p class="lead">{text.lead}</p>
      <div class="controls">
        <Select label={text.by} options={dimensions} value={by.value} onChange={value => changeQuery({ by: value, first: '' })} />
        <Select
          label={text.range}
          options={rangeOptions}
          value={hours.value}
          onChange={value => changeQuery({ hours: value, first: '' })}
        />
        {found !== undefined && (
          <Downloads
            name={`traffic-by-${found.by}`}
            titles={[found.by, ...columnsOfCsv]}
            read={() => ({ json: found, rows: found.groups.map(cellsOf) })}
          />
        )}
      </div>
      <TrafficOverTime hours={Number(hours.value)} />
      <WhenLoaded from={report}>
        {shown =>
          shown.groups.length === 0 ? (
            <EmptyState icon="traffic" title={texts.usage.none} />
          ) : (
            <GroupTable
              caption={operatorTexts.pages.traffic}
              {...shown}
              order={{ by: sort.value, isDescending: true, sortBy: column => changeQuery({ sort: column, first: '' }) }}
            />
          )
        }
      </WhenLoaded>
      <Pager offset={pagerOffset(first)} size={groupsPerPage} count={found?.groupCount ?? 0} />
    </>
  )
}
