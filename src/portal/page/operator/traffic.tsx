import type { TrafficGroup, TrafficReport } from '../../operations/usage-operations.ts'
import { Select, WhenLoaded } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Pager, Table } from '../components/table.tsx'
import { formatLatency, formatMethod, formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, pagerOffset, queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { formatPart } from './format-figures.ts'
import { AccountLink, FailedCallsLink, NetworkLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.traffic

const { method, network, key, outcome } = texts.usage
const dimensions = Object.entries({ account: text.account, method, network, key, outcome }).map(([value, label]) => ({ value, label }))
export const rangeOptions = Object.entries(text.ranges).map(([value, label]) => ({ value, label }))

const orders = Object.entries(text.orders).map(([value, label]) => ({ value, label }))

const groupsPerPage = 100

/** An account by its name; one that no longer exists by its id. */
const nameOf = ({ name, account }: TrafficGroup): string => account || name

const columnsOfCsv = ['calls', 'credits', 'forwarded', 'failed', 'p50Ms', 'p95Ms', 'p99Ms'] as const

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
        <Select label={texts.sortBy} options={orders} value={sort.value} onChange={value => changeQuery({ sort: value, first: '' })} />
        {found !== undefined && (
          <Downloads
            name={`traffic-by-${found.by}`}
            titles={[found.by, ...columnsOfCsv]}
            read={() => ({ json: found, rows: found.groups.map(cellsOf) })}
          />
        )}
      </div>
      <WhenLoaded from={report}>
        {shown =>
          shown.groups.length === 0 ? (
            <EmptyState icon="traffic" title={texts.usage.none} />
          ) : (
            <GroupTable caption={operatorTexts.pages.traffic} {...shown} />
          )
        }
      </WhenLoaded>
      <Pager offset={pagerOffset(first)} size={groupsPerPage} count={found?.groupCount ?? 0} />
    </>
  )
}

interface GroupTableProps extends Pick<TrafficReport, 'by' | 'groups'> {
  readonly caption: string
  /** What is shown of the name of a group; the name unless given. */
  nameOf?: ((name: string) => string) | undefined
  /** The failed calls of a group; undefined where they cannot be listed. */
  failedOf?(name: string): Pick<Parameters<typeof FailedCallsLink>[0], 'account' | 'of'>
}

export const GroupTable = ({ caption, by, groups, nameOf = name => name, failedOf }: GroupTableProps) => (
  <Table
    caption={caption}
    keyOf={group => group.name}
    rows={groups}
    columns={[
      {
        title: dimensions.find(({ value }) => value === by)?.label ?? by,
        cell: group => <GroupName by={by} group={{ ...group, name: nameOf(group.name) }} />,
      },
      { title: texts.calls, isNumber: true, cell: group => formatNumber(group.calls) },
      {
        title: text.failed,
        isNumber: true,
        cell: group => <Failed group={group} of={failedOf?.(group.name) ?? failedOfAccount(by, group)} />,
      },
      { title: text.p50, isNumber: true, cell: group => formatLatency(group.p50Ms) },
      { title: text.p95, isNumber: true, cell: group => formatLatency(group.p95Ms) },
      { title: text.p99, isNumber: true, cell: group => formatLatency(group.p99Ms) },
      { title: texts.credits, isNumber: true, cell: group => formatNumber(group.credits) },
      { title: texts.usage.forwarded, isNumber: true, cell: group => formatNumber(group.forwarded) },
    ]}
  />
)

/** `12 (0.4 %)`; where it must be broken, before the bracket. */
const formatFailed = ({ failed, calls }: TrafficGroup): string =>
  failed === 0 ? '0' : `${formatNumber(failed)} (${formatPart(failed / calls).replaceAll(' ', '\u00a0')})`

const failedOfAccount = (by: string, { account = '' }: TrafficGroup) => (by === 'account' && account !== '' ? { account } : undefined)

interface FailedProps {
  readonly group: TrafficGroup
  readonly of: ReturnType<NonNullable<GroupTableProps['failedOf']>> | undefined
}

const Failed = ({ group, of }: FailedProps) => {
  const text = formatFailed(group)
  return of === undefined || group.failed === 0 ? <span>{text}</span> : <FailedCallsLink {...of}>{text}</FailedCallsLink>
}

const GroupName = ({ by, group }: { readonly by: string; readonly group: TrafficGroup }) => {
  if (by === 'account') return <AccountLink name={group.account ?? ''} id={group.name} />
  return by === 'network' ? <NetworkLink name={group.name} /> : <code>{by === 'method' ? formatMethod(group.name) : group.name}</code>
}
