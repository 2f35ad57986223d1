import type { NodeFailuresJson, OverviewJson } from '../../operator/overview-routes.ts'
import type { ErrorGroup, ErrorReport } from '../../operations/usage-operations.ts'
import { now } from '../clock.ts'
import { Badge } from '../components/badge.tsx'
import { Select, WhenLoaded } from '../components/controls.tsx'
import { Downloads } from '../components/downloads.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { formatFirstAndLast, formatMethod, formatMoment, formatNumber, formatOutcome } from '../format.ts'
import { useRequest } from '../request.ts'
import { queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { formatPart, toneOfFault } from './format-figures.ts'
import { rangeOptions } from './group-table.tsx'
import { AccountLink, FailedCallsLink, NetworkLink, NodeLink, PageLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.errors

/** What fails, on which network and by whose fault; and which nodes fail now. */
export const Errors = () => {
  const hours = queryMember('hours', '24')
  const network = queryMember('network')
  const filter = { hours: hours.value, ...(network.value !== '' && { network: network.value }) }
  const report = useRequest<ErrorReport>(`/errors?${new URLSearchParams(filter)}`)
  const overview = useRequest<OverviewJson>('/overview')
  const found = report.data.value
  // That of the address may have no calls, or the names are yet to come.
  const names = [...new Set([...(overview.data.value?.networks ?? []).map(({ name }) => name), network.value])].filter(Boolean)
  return (
    <>
      <div class="controls">
        <Select label={operatorTexts.traffic.range} options={rangeOptions} value={hours.value} onChange={hours.set} />
        <Select label={text.network} options={[{ value: '', label: texts.all }, ...names]} value={network.value} onChange={network.set} />
        {found !== undefined && (
          <Downloads
            name="errors"
            titles={[
              'network',
              'outcome',
              'code',
              'byGateway',
              'calls',
              'callsOfNetwork',
              'accounts',
              'most',
              'firstHour',
              'lastHour',
              'methods',
            ]}
            read={() => ({ json: found, rows: found.groups.map(cellsOf) })}
          />
        )}
      </div>
      <WhenLoaded from={report} skeleton={<Skeleton height={16} />}>
        {({ groups }) => (groups.length === 0 ? <EmptyState icon="check" title={text.none} /> : <ErrorTable groups={groups} />)}
      </WhenLoaded>
      <NodeFailures hours={Number(hours.value)} network={network.value} />
    </>
  )
}

const cellsOf = ({ network, outcome, code, byGateway, calls, callsOfNetwork, accounts, most, ...group }: ErrorGroup) => [
  ...[network, outcome, code ?? '', String(byGateway), calls, callsOfNetwork, accounts],
  ...[most.name || most.account, group.firstHour, group.lastHour],
  group.methods.map(({ method, calls }) => `${method} ${calls}`).join(', '),
]

/** Nodes have their own messages; and some outcomes are called by theirs. */
const saysMore = ({ outcome, code, message }: Pick<ErrorGroup, 'outcome' | 'code' | 'message'>): boolean =>
  code !== null && message.toLowerCase() !== formatOutcome(outcome).toLowerCase()

interface ErrorTableProps {
  readonly groups: readonly ErrorGroup[]
  /** Name of the account whose they are; undefined for those of all. */
  readonly account?: string
}

export const ErrorTable = ({ groups, account }: ErrorTableProps) => (
  <Table
    caption={operatorTexts.pages.errors}
    keyOf={({ network, outcome }) => `${network} ${outcome}`}
    rows={groups}
    columns={[
      { title: texts.usage.network, cell: ({ network }) => <NetworkLink name={network} /> },
      {
        title: texts.usage.outcome,
        cell: ({ network, outcome, code, byGateway, ...group }) => (
          <>
            <Badge tone={toneOfFault({ byGateway })}>{formatOutcome(outcome, code)}</Badge>
            {saysMore({ outcome, code, ...group }) && <p>{group.message}</p>}
            <p class="help">{byGateway ? text.ofGateway : text.ofCaller}</p>
            {account === undefined ? (
              <p>
                <PageLink to={`/operator/requests?${new URLSearchParams({ outcome, network })}`}>{operatorTexts.pages.requests}</PageLink>
              </p>
            ) : (
              <LastCalls account={account} network={network} outcome={outcome} />
            )}
          </>
        ),
      },
      {
        title: text.methods,
        cell: ({ network, outcome, methods, methodCount }) => (
          <>
            {methods.map(({ method, calls }) => (
              <span key={method} class="line">
                <MethodLink method={method} network={network} outcome={outcome} account={account} />{' '}
                <span class="since">{formatNumber(calls)}</span>
              </span>
            ))}
            {methodCount > methods.length && (
              <span class="since">
                {formatNumber(methodCount - methods.length)} {text.moreMethods}
              </span>
            )}
          </>
        ),
      },
      { title: texts.calls, isNumber: true, cell: ({ calls }) => formatNumber(calls) },
      { title: text.share, isNumber: true, cell: ({ calls, callsOfNetwork }) => formatPart(calls / Math.max(1, callsOfNetwork)) },
      {
        title: text.hours,
        isTime: true,
        cell: ({ firstHour, lastHour }) => {
          const [first, last] = formatFirstAndLast(firstHour, lastHour, now.value)
          return (
            <>
              <span class="one-line">{first}</span>
              {last !== first && <span class="line one-line">– {last}</span>}
            </>
          )
        },
      },
      ...(account === undefined
        ? [
            { title: text.accounts, isNumber: true, cell: ({ accounts }: ErrorGroup) => formatNumber(accounts) },
            {
              title: text.most,
              cell: ({ most, calls, network, outcome }: ErrorGroup) => (
                <>
                  <AccountLink name={most.name} id={most.account} /> <span class="since one-line">{formatPart(most.calls / calls)}</span>
                  {most.name !== '' && <LastCalls account={most.name} network={network} outcome={outcome} />}
                </>
              ),
            },
          ]
        : []),
    ]}
  />
)

interface MethodLinkProps {
  readonly method: string
  readonly network: string
  readonly outcome: string
  readonly account: string | undefined
}

/** To its logged calls: but methods that no network has are counted together. */
const MethodLink = ({ method, network, outcome, account }: MethodLinkProps) => {
  const name = formatMethod(method)
  if (name !== method) return <>{name}</>
  const code = <code>{method}</code>
  return account === undefined ? (
    <PageLink to={`/operator/requests?${new URLSearchParams({ outcome, method, network })}`}>{code}</PageLink>
  ) : (
    <FailedCallsLink account={account} of={{ network, method, outcome }}>
      {code}
    </FailedCallsLink>
  )
}

const LastCalls = ({ account, network, outcome }: { readonly account: string; readonly network: string; readonly outcome: string }) => (
  <p class="one-line">
    <FailedCallsLink account={account} of={{ network, outcome }}>
      {operatorTexts.pages.requests}
    </FailedCallsLink>
  </p>
)

/** Empty: of all networks. */
const NodeFailures = ({ hours, network }: { readonly hours: number; readonly network: string }) => {
  const range = hours > 1 ? '24h' : '1h'
  const found = useRequest<NodeFailuresJson>(`/overview/failures?range=${range}`)
  return (
    <>
      <h2>{text.ofNodes}</h2>
      <WhenLoaded from={found} skeleton={<Skeleton height={6} />}>
        {({ since, nodes }) => <FailingNodes since={since} nodes={nodes.filter(each => network === '' || each.network === network)} />}
      </WhenLoaded>
    </>
  )
}

/** Counted by this gateway alone, as usage names no nodes; over time they are on Nodes. */
const FailingNodes = ({ since, nodes }: NodeFailuresJson) => {
  const failing = nodes.flatMap(({ errors, ...node }) => errors.map(each => ({ ...node, ...each }))).sort((a, b) => b.failures - a.failures)
  return (
    <>
      <p class="lead">{`${text.counted} ${formatMoment(since, now.value)}${text.lastDay}${failing.length === 0 ? ` ${text.noNodeFails}` : ''}`}</p>
      {failing.length > 0 && (
        <Table
          caption={text.ofNodes}
          keyOf={({ network, node, error }) => `${network}/${node} ${error}`}
          rows={failing}
          columns={[
            { title: operatorTexts.nodes.upstream, cell: ({ network, node }) => <NodeLink network={network} node={node} isShort /> },
            { title: texts.usage.network, cell: ({ network }) => <NetworkLink name={network} /> },
            { title: operatorTexts.nodes.error, cell: ({ error }) => error },
            { title: operatorTexts.nodes.failures, isNumber: true, cell: ({ failures }) => formatNumber(failures) },
            { title: text.attempts, isNumber: true, cell: ({ requests }) => formatNumber(requests) },
          ]}
        />
      )}
    </>
  )
}
