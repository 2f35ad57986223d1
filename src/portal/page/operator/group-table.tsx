import type { TrafficGroup, TrafficReport } from '../../operations/usage-operations.ts'
import { Table } from '../components/table.tsx'
import type { TableOrder } from '../components/table.tsx'
import { formatLatency, formatMethod, formatNumber } from '../format.ts'
import { texts } from '../texts.ts'
import { formatPart } from './format-figures.ts'
import { AccountLink, FailedCallsLink, NetworkLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.traffic

const { method, network, key, outcome } = texts.usage
export const dimensions = Object.entries({ account: text.account, method, network, key, outcome }).map(([value, label]) => ({
  value,
  label,
}))
export const rangeOptions = Object.entries(text.ranges).map(([value, label]) => ({ value, label }))

interface GroupTableProps extends Pick<TrafficReport, 'by' | 'groups' | 'total'> {
  readonly caption: string
  /** What is shown of the name of a group; the name unless given. */
  nameOf?: ((name: string) => string) | undefined
  /** The failed calls of a group; undefined where they cannot be listed. */
  failedOf?(name: string): Pick<Parameters<typeof FailedCallsLink>[0], 'account' | 'of'>
  readonly order?: TableOrder
}

export const GroupTable = ({ caption, by, groups, total, nameOf = name => name, failedOf, order }: GroupTableProps) => {
  const all: TrafficGroup = { name: texts.usage.total, ...total }
  const failed = (group: TrafficGroup, count: number) => (
    <Failed group={group} count={count} of={group === all ? undefined : (failedOf?.(group.name) ?? failedOfAccount(by, group))} />
  )
  return (
    <Table
      caption={caption}
      keyOf={group => group.name}
      rows={groups}
      total={all}
      order={order}
      columns={[
        {
          title: dimensions.find(({ value }) => value === by)?.label ?? by,
          cell: group => (group === all ? group.name : <GroupName by={by} group={{ ...group, name: nameOf(group.name) }} />),
        },
        { title: texts.calls, sort: 'calls', isNumber: true, cell: group => formatNumber(group.calls) },
        { title: operatorTexts.gatewayErrors, sort: 'byGateway', isNumber: true, cell: group => failed(group, group.byGateway) },
        {
          title: operatorTexts.callerErrors,
          sort: 'byCaller',
          isNumber: true,
          cell: group => failed(group, group.failed - group.byGateway),
        },
        { title: text.p50, isNumber: true, cell: group => formatLatency(group.p50Ms) },
        { title: text.p95, sort: 'p95Ms', isNumber: true, cell: group => formatLatency(group.p95Ms) },
        { title: text.p99, isNumber: true, cell: group => formatLatency(group.p99Ms) },
        { title: texts.credits, sort: 'credits', isNumber: true, cell: group => formatNumber(group.credits) },
        { title: texts.usage.forwarded, isNumber: true, cell: group => formatNumber(group.forwarded) },
      ]}
    />
  )
}

/** `12 (0.4 %)`; where it must be broken, before the bracket. */
const formatCount = (count: number, calls: number): string =>
  count === 0 ? '0' : `${formatNumber(count)} (${formatPart(count / calls).replaceAll(' ', '\u00a0')})`

const failedOfAccount = (by: string, { account = '' }: TrafficGroup) => (by === 'account' && account !== '' ? { account } : undefined)

interface FailedProps {
  readonly group: TrafficGroup
  readonly count: number
  readonly of: ReturnType<NonNullable<GroupTableProps['failedOf']>> | undefined
}

const Failed = ({ group, count, of }: FailedProps) => {
  const text = formatCount(count, group.calls)
  return of === undefined || count === 0 ? <span>{text}</span> : <FailedCallsLink {...of}>{text}</FailedCallsLink>
}

const GroupName = ({ by, group }: { readonly by: string; readonly group: TrafficGroup }) => {
  if (by === 'account') return <AccountLink name={group.account ?? ''} id={group.name} />
  return by === 'network' ? <NetworkLink name={group.name} /> : <code>{by === 'method' ? formatMethod(group.name) : group.name}</code>
}
