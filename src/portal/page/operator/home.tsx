import type { ComponentChildren } from 'preact'
import type { AccountOverviewJson, ActivityJson, OverviewJson } from '../../operator/overview-routes.ts'
import type { CurrentProblemJson, NodesAndProblemsJson } from '../../operator/problems.ts'
import type { NodeJson } from '../../operations/node-operations.ts'
import { Badge } from '../components/badge.tsx'
import type { Tone } from '../components/badge.tsx'
import { Banner } from '../components/banner.tsx'
import { percentileColors } from '../components/chart.tsx'
import { WhenLoaded } from '../components/controls.tsx'
import { Bar, Figure, toneOfUse } from '../components/figure.tsx'
import { NewestBlock, StateBadge, usableNodesOf } from '../components/network-state.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { TextWithCode } from '../components/text-with-code.tsx'
import { Facts } from '../components/facts.tsx'
import type { Fact } from '../components/facts.tsx'
import { now } from '../clock.ts'
import { formatAge, formatHours, formatLatency, formatMoment, formatNumber, formatTime } from '../format.ts'
import { connectionProblem, useRequest } from '../request.ts'
import type { Loaded } from '../request.ts'
import { queryMember } from '../router.ts'
import { formatAlert } from '../components/format-alert.ts'
import { texts } from '../texts.ts'
import { Acknowledge } from './acknowledge.tsx'
import { ActivityLines, activityRanges, failedShareChart, line, rangeOf } from './activity-charts.tsx'
import { Capacity } from './capacity.tsx'
import { DeliveryState } from './delivery-state.tsx'
import { DrainNode } from './drain-node.tsx'
import { formatCores, formatCount, formatRate, formatShare, inTheLast, toMiB, toneOfFailures } from './format-figures.ts'
import { Acknowledged, Incidents } from './incidents.tsx'
import { AccountLink, ErrorsLink, NetworkLink, NodeLink, PageLink, nameOfNode } from './links.tsx'
import {
  FailedShare,
  LastFailure,
  NodeTimes,
  NodeWhy,
  byProblem,
  fateOfCalls,
  formatLatencyOf,
  startOfOutage,
  toneOfNode,
  useNodes,
} from './node-state.tsx'
import type { NetworkNodes } from './node-state.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.home

/** What an operator looks at first: what is wrong, how much is going on, and who needs something. */
export const Home = () => {
  const overview = useRequest<OverviewJson>('/overview')
  const nodes = useNodes()
  const accounts = useRequest<AccountOverviewJson>('/overview/accounts')
  return (
    <>
      <Attention
        accounts={accounts.data.value}
        overview={overview.data.value}
        nodes={nodes.data.value}
        isUnread={(overview.error.value ?? nodes.error.value) !== undefined}
        onChanged={nodes.reload}
      />
      <WhenLoaded from={overview} skeleton={<Skeleton height={6} />}>
        {found => <Figures {...found} isDown={nodes.data.value?.networks.some(({ state }) => state === 'down') === true} />}
      </WhenLoaded>
      {nodes.data.value === undefined && nodes.error.value === undefined ? (
        <>
          <h2>{text.networks}</h2>
          <Skeleton height={12} />
        </>
      ) : (
        <Networks networks={nodes.data.value?.networks ?? []} overview={overview.data.value} />
      )}
      <h2>{operatorTexts.incidents.title}</h2>
      <Incidents />
      <Charts />
      <Accounts accounts={accounts} />
      <WhenLoaded from={overview} skeleton={<Skeleton height={10} />}>
        {({ gateway }) => <Health gateway={gateway} />}
      </WhenLoaded>
    </>
  )
}

interface AttentionProps {
  readonly accounts: AccountOverviewJson | undefined
  readonly overview: OverviewJson | undefined
  readonly nodes: NodesAndProblemsJson | undefined
  /** They could not be read: the page says so. */
  readonly isUnread: boolean
  onChanged(): void
}

/** The tones in the order of what matters. */
const tonesByRank: readonly Tone[] = ['danger', 'warn', 'accent', 'neutral', 'ok']

interface AttentionRow {
  readonly key: string
  readonly tone: Tone
  readonly state: string
  readonly subject: ComponentChildren
  readonly why: ComponentChildren
  /** What can be done at once. */
  readonly action?: ComponentChildren
}

/** A node that gets no calls, or fewer, or that was wrong. */
const nodeRow = (
  { network, node }: { readonly network: NetworkNodes; readonly node: NodeJson },
  { wrongResults, partOfOutage }: CurrentProblemJson,
  onChanged: () => void,
): AttentionRow => {
  const { name, condition } = node
  const toneOfResults: Tone = wrongResults === null ? 'ok' : wrongResults.proven ? 'danger' : 'warn'
  const tones = condition === 'drained' ? [toneOfNode(node)] : [toneOfNode(node), toneOfResults]
  const tone = tonesByRank.find(each => tones.includes(each)) ?? 'neutral'
  const isLiar = wrongResults !== null && condition !== 'drained' && condition !== 'notUsable'
  return {
    key: `${network.name}/${name}`,
    tone,
    state: isLiar ? operatorTexts.wrongResults.attention : operatorTexts.nodes.conditions[condition],
    subject: <NodeLink network={network.name} node={name} isShort={partOfOutage} />,
    why: (
      <>
        {wrongResults !== null && <WrongResults {...wrongResults} />}
        <NodeWhy node={node} />
        {condition !== 'drained' && <LastFailure node={node} />}
        <NodeTimes node={node} />
      </>
    ),
    // To drain what gets no calls helps nobody now; it can be drained on Nodes.
    action: condition !== 'notUsable' && (
      <DrainNode network={network} node={node} of={nameOfNode(network.name, name)} onChanged={onChanged} />
    ),
  }
}

const WrongResults = ({ count, time, cause }: NonNullable<CurrentProblemJson['wrongResults']>) => (
  <p class="error sentence">
    {formatNumber(count)} {count === 1 ? operatorTexts.wrongResults.inDayOne : operatorTexts.wrongResults.inDay}{' '}
    {formatMoment(time, now.value)}: {cause}
  </p>
)

interface OtherRowProps {
  readonly problem: CurrentProblemJson
  readonly network: NetworkNodes | undefined
  readonly overview: OverviewJson
  readonly accounts: AccountOverviewJson | undefined
}

const tonesOfSeverity = { critical: 'danger', warning: 'warn', info: 'accent' } as const satisfies Record<
  CurrentProblemJson['severity'],
  Tone
>

/** Of a network, or of the gateway. */
const otherRow = ({ problem, network, overview, accounts }: OtherRowProps): AttentionRow => {
  const { network: name, kind, severity, text: why, partOfOutage } = problem
  return {
    key: [kind, problem.class, name].join(),
    tone: tonesOfSeverity[severity],
    state:
      kind === 'notRedundant'
        ? text.notRedundant
        : kind === 'stalled' || kind === 'down'
          ? texts.networks.states[kind]
          : text.severities[severity],
    subject: partOfOutage ? null : name === null ? pageOf(kind) : <NetworkLink name={name} />,
    why: failureAlerts.includes(kind) ? (
      <WhyCallsFail why={why} network={overview.networks.find(each => each.name === name)} />
    ) : kind === 'down' && network !== undefined ? (
      <WhyDown {...{ network, overview, accounts }} />
    ) : (
      <TextWithCode text={whyOf(problem, network)} />
    ),
  }
}

const whyOf = ({ kind, text: why }: CurrentProblemJson, network: NetworkNodes | undefined): string => {
  if (network === undefined) return why
  const { lastHead } = network
  if (kind === 'stalled' && lastHead !== null)
    return `${why} ${text.for} ${formatAge(Date.parse(lastHead.checkedAt) - Date.parse(lastHead.since))}`
  if (kind === 'notRedundant') return `${why}: ${text.withoutIt}, ${fateOfCalls(network)}`
  return kind === 'classUnusable' ? `${why}: ${fateOfCalls(network)}` : why
}

const Attention = ({ accounts, overview, nodes, isUnread, onChanged }: AttentionProps) => {
  if (overview === undefined || nodes === undefined) return isUnread ? null : <Skeleton height={3} />
  const networks = nodes.networks.toSorted(byProblem)
  const rowOf = (problem: CurrentProblemJson): AttentionRow => {
    const network = networks.find(({ name }) => name === problem.network)
    const node = network?.upstreams.find(({ name }) => name === problem.node)
    return network === undefined || node === undefined
      ? otherRow({ problem, network, overview, accounts })
      : nodeRow({ network, node }, problem, onChanged)
  }
  const partsOf = ({ network, kind }: CurrentProblemJson): readonly AttentionRow[] =>
    kind === 'down' ? nodes.problems.filter(each => each.partOfOutage && each.network === network).map(rowOf) : []
  const rows = nodes.problems
    .filter(({ partOfOutage }) => !partOfOutage)
    .map(problem => ({ ...rowOf(problem), problem, parts: partsOf(problem) }))
  const idle = networks.filter(({ state }) => state === 'unknown').map(({ name }) => name)
  const isWell = nodes.problems.every(({ network, severity }) => network === null && severity !== 'critical')
  return (
    <>
      {/* Where the store is down, the page says so above. */}
      {isWell && !isStoreDown() && (
        <Banner tone="ok" title={text.allWell}>
          {`${text.nodeCount} ${formatNumber(networks.reduce((sum, { nodes }) => sum + nodes, 0))}, ${text.networkCount} ${formatNumber(networks.length)}.`}
          {idle.length > 0 && ` ${text.idle} ${idle.join(', ')}.`}
        </Banner>
      )}
      {rows.length > 0 && (
        <ul class="card attention" aria-label={text.attention}>
          {rows.map(({ problem, parts, action, ...row }) => (
            <AttentionItem
              {...row}
              key={row.key}
              action={
                (action || problem.acknowledgeable) && (
                  <>
                    {problem.acknowledgeable && <Acknowledge problem={problem} onChanged={onChanged} />}
                    {action}
                  </>
                )
              }
            >
              <Acknowledged of={problem.acknowledged} />
              {parts.length > 0 && (
                <ul class="attention">
                  {parts.map(part => (
                    <AttentionItem {...part} key={part.key} />
                  ))}
                </ul>
              )}
            </AttentionItem>
          ))}
        </ul>
      )}
    </>
  )
}

const AttentionItem = ({ tone, state, subject, why, action, children }: AttentionRow & { readonly children?: ComponentChildren }) => (
  <li>
    <span>
      <Badge tone={tone}>{state}</Badge>
    </span>
    <div>
      {subject}
      <div class="why sentence">{why}</div>
      {children}
    </div>
    {action && <div class="buttons">{action}</div>}
  </li>
)

/** What callers notice, which is announced. Empty parts are left out. */
const WhyDown = ({ network, overview, accounts }: Omit<OtherRowProps, 'problem'> & { readonly network: NetworkNodes }) => {
  const outage = overview.networks.find(({ name }) => name === network.name)?.outage ?? null
  const fate = fateOfCalls(network)
  const since = outage === null ? network.downSince && formatMoment(network.downSince, now.value) : startOfOutage(network, outage)
  const parts = [
    `${text.noUsable} (${network.usableNodes} ${texts.of} ${network.nodes})${since === null ? '' : ` ${operatorTexts.nodes.since} ${since}`}`,
    fate === operatorTexts.nodes.callsToPartner && accounts !== undefined
      ? `${fate} (${formatNumber(accounts.forwardedCount)} ${texts.of} ${formatNumber(accounts.accountCount)} ${text.accounts})`
      : fate,
    outage === null ? '' : failedInOutage(outage),
  ]
  return (
    <span class="error" role="alert">
      {parts.filter(Boolean).join('; ')}
    </span>
  )
}

/** `all 11 calls since then failed`. Empty where none has failed. */
const failedInOutage = ({ calls, failedCalls }: NonNullable<OverviewJson['networks'][number]['outage']>): string => {
  const failed =
    failedCalls === calls && calls > 1
      ? `${text.all} ${formatNumber(calls)}`
      : `${formatNumber(failedCalls)} ${texts.of} ${formatNumber(calls)}`
  return failedCalls === 0 ? '' : `${failed} ${text.callsSinceThen} ${text.haveFailed}`
}

/** What callers and nodes say of it is on pages of its own. */
const failureAlerts: readonly CurrentProblemJson['kind'][] = ['TollgateCallsFail', 'TollgateInternalErrors']

const WhyCallsFail = ({ why, network }: { readonly why: string; readonly network: OverviewJson['networks'][number] | undefined }) => {
  const [most] = (network?.upstreams ?? [])
    .flatMap(({ name: node, errors }) => errors.map(each => ({ node, ...each })))
    .toSorted((a, b) => b.failures - a.failures)
  return (
    <>
      {why}
      {most !== undefined && `; ${text.nodeFails} ${most.node}, ${most.error}`}
      {'. '}
      {network !== undefined && <ErrorsLink network={network.name}>{text.seeErrors}</ErrorsLink>}
    </>
  )
}

/** Where one sees more of it. */
const pageOf = (kind: CurrentProblemJson['kind']) =>
  kindsOfConfiguration.includes(kind) ? <PageLink to="/operator/configuration">{operatorTexts.pages.configuration}</PageLink> : text.gateway

const kindsOfConfiguration: readonly CurrentProblemJson['kind'][] = ['TollgateReloadFailed', 'noAlertReceivers', 'alertsNotSent']

interface FiguresProps extends Pick<OverviewJson, 'seconds' | 'total' | 'networks'> {
  /** A network has no usable node. */
  readonly isDown: boolean
}

const Figures = ({ seconds, total, networks, isDown }: FiguresProps) => {
  const perSecond = (count: number): number => (seconds > 0 ? count / seconds : 0)
  const failed = total.calls > 0 ? total.failedCalls / total.calls : null
  // The calls of other networks hide nothing.
  const isCritical = total.failedCalls > 0 && (isDown || networks.some(each => toneOfFailures(each) === 'danger'))
  return (
    <section class="card figures" aria-label={text.lastMinute}>
      <Figure
        label={<PageLink to="/operator/traffic?hours=1">{text.callsPerSecond}</PageLink>}
        value={formatRate(perSecond(total.calls))}
        note={inTheLast(seconds)}
        testId="calls-per-second"
      />
      <Figure
        label={<PageLink to="/operator/errors?hours=1">{operatorTexts.gatewayErrors}</PageLink>}
        value={formatShare(failed)}
        tone={isCritical ? 'danger' : toneOfFailures(total)}
        note={`${formatCount(total.failedCalls)} ${texts.of} ${formatCount(total.calls)} ${inTheLast(seconds)}, ${text.gatewayErrorsNote}`}
      />
      <Figure
        label={<PageLink to="/operator/traffic?by=method&hours=1">{text.p95}</PageLink>}
        value={formatLatency(total.p95Ms)}
        note={`p50 ${formatLatency(total.p50Ms)}, p99 ${formatLatency(total.p99Ms)}`}
      />
      <Figure
        label={<PageLink to="/operator/traffic?by=account&hours=1">{text.creditsPerSecond}</PageLink>}
        value={formatRate(perSecond(total.credits))}
        note={inTheLast(seconds)}
      />
      <Figure label={text.cacheHits} value={formatShare(total.cacheHits)} note={text.cacheNote} />
    </section>
  )
}

/** More are on Nodes. */
const maxNetworks = 20

interface NetworksProps {
  readonly networks: readonly NetworkNodes[]
  readonly overview: OverviewJson | undefined
}

/** Each network on a line, those with problems first. */
const Networks = ({ networks, overview }: NetworksProps) => {
  if (networks.length === 0) return null
  const traffics = new Map(overview?.networks.map(each => [each.name, each]))
  const seconds = overview?.seconds ?? 0
  const trafficOf = ({ name }: NetworkNodes) => traffics.get(name)
  return (
    <>
      <h2>{text.networks}</h2>
      <Table
        caption={text.networks}
        keyOf={({ name }) => name}
        rows={networks.toSorted(byProblem).slice(0, maxNetworks)}
        columns={[
          { title: operatorTexts.nodes.network, cell: ({ name }) => <NetworkLink name={name} /> },
          { title: text.state, cell: ({ state }) => <StateBadge state={state} /> },
          { title: operatorTexts.pages.nodes, cell: network => <span class="one-line">{usableNodesOf(network)}</span> },
          {
            title: text.callsPerSecond,
            isNumber: true,
            cell: network => formatRate(seconds > 0 ? (trafficOf(network)?.calls ?? 0) / seconds : 0),
          },
          {
            title: operatorTexts.gatewayErrors,
            isNumber: true,
            cell: network => <FailedShare network={network} traffic={trafficOf(network)} />,
          },
          { title: text.p95, isNumber: true, cell: network => formatLatencyOf(network, trafficOf(network)?.p95Ms) },
          { title: operatorTexts.nodes.head, isNumber: true, cell: network => <NewestBlock {...network} /> },
        ]}
      />
      {networks.length > maxNetworks && (
        <PageLink to="/operator/nodes">{`${text.allNetworks} (${formatNumber(networks.length)})`}</PageLink>
      )}
    </>
  )
}

const Charts = () => {
  const range = queryMember('range', '1h')
  const shown = rangeOf(range.value)
  const activity = useRequest<ActivityJson>(`/overview/activity?range=${shown}`)
  return (
    <>
      <div class="section-heading">
        <h2>{text.overTime}</h2>
        <Segments label={text.range} options={activityRanges} value={shown} onChange={range.set} />
      </div>
      <WhenLoaded from={activity} skeleton={<Skeleton height={30} />}>
        {found => (
          <ActivityLines
            activity={found}
            range={shown}
            charts={[
              {
                title: text.callsPerSecond,
                format: formatRate,
                series: [line(text.calls, found.calls.callsPerSecond)],
              },
              failedShareChart(found.calls),
              {
                title: text.latency,
                format: formatLatency,
                series: [
                  { id: 'p50', name: 'p50', points: found.calls.p50Ms, color: percentileColors.p50 },
                  { id: 'p95', name: 'p95', points: found.calls.p95Ms, color: percentileColors.p95 },
                ],
              },
              { title: text.creditsPerSecond, format: formatRate, series: [line(text.credits, found.calls.creditsPerSecond)] },
              { title: text.cacheHits, format: formatShare, series: [line(text.hits, found.calls.cacheHits)] },
              { title: text.cpu, format: formatCores, series: [line(text.cores, found.gateway.cpu)] },
              {
                title: text.memory,
                format: mib => `${formatNumber(Math.round(mib))} MiB`,
                series: [line(text.resident, found.gateway.residentBytes.map(toMiB))],
              },
            ]}
          />
        )}
      </WhenLoaded>
    </>
  )
}

const Accounts = ({ accounts }: { readonly accounts: Loaded<AccountOverviewJson> }) => {
  const heading = <h2>{operatorTexts.pages.accounts}</h2>
  const skeleton = (
    <>
      {heading}
      <Skeleton height={16} />
    </>
  )
  return (
    <WhenLoaded from={accounts} skeleton={skeleton}>
      {found => (
        <>
          {heading}
          <div class="columns">
            <NearLimit accounts={found} />
            <Movers accounts={found} />
            <Alerts accounts={found} />
            <OperatorAlerts accounts={found} />
          </div>
        </>
      )}
    </WhenLoaded>
  )
}

interface AccountsProps {
  readonly accounts: AccountOverviewJson
}

const NearLimit = ({ accounts: { nearLimit, nearLimitCount } }: AccountsProps) => (
  <div>
    <h3>
      {text.nearLimit} {nearLimitCount > 0 && <Badge tone="warn">{formatNumber(nearLimitCount)}</Badge>}
    </h3>
    {nearLimit.length === 0 ? (
      <p class="lead">{text.noneNearLimit}</p>
    ) : (
      <Table
        caption={text.nearLimit}
        keyOf={({ id }) => id}
        rows={nearLimit}
        columns={[
          { title: text.account, cell: account => <AccountLink {...account} /> },
          {
            title: text.used,
            cell: ({ name, used, limit }) => (
              <>
                {formatNumber(used)} {text.of} {formatNumber(limit)} {used >= limit && <Badge tone="danger">{text.spent}</Badge>}
                <Bar label={`${text.used}: ${name}`} value={used} max={limit} tone={toneOfUse(used, limit)} isThin />
              </>
            ),
          },
          { title: text.share, isNumber: true, cell: ({ used, limit }) => formatShare(used / limit) },
        ]}
      />
    )}
    {nearLimitCount > nearLimit.length && <PageLink to="/operator/accounts?sort=used">{text.allByUse}</PageLink>}
  </div>
)

/** `+1,200 (+120 %)`, `−41 (−82 %)`. */
const formatDifference = ({ calls, before }: { readonly calls: number; readonly before: number }): string => {
  const signed = (value: number): string => `${calls < before ? '−' : '+'}${formatNumber(Math.abs(value))}`
  const change = before === 0 ? text.isNew : `${signed(Math.round((100 * (calls - before)) / before))}\u00a0%`
  return `${signed(calls - before)} (${change})`
}

const Movers = ({ accounts: { movers, hour } }: AccountsProps) => (
  <div>
    <h3>{text.movers}</h3>
    <p class="lead">
      {text.moversHow} {formatHours(hour, text.comparedWith)}
    </p>
    {movers.length === 0 ? (
      <p>{text.noMovers}</p>
    ) : (
      <Table
        caption={text.movers}
        keyOf={({ id }) => id}
        rows={movers}
        columns={[
          { title: text.account, cell: account => <AccountLink {...account} /> },
          { title: text.calls, isNumber: true, cell: ({ calls }) => formatNumber(calls) },
          { title: text.before, isNumber: true, cell: ({ before }) => formatNumber(before) },
          { title: text.difference, isNumber: true, cell: row => formatDifference(row) },
        ]}
      />
    )}
  </div>
)

/** Nothing where nobody is told, or of nothing. */
const OperatorAlerts = ({ accounts: { operatorAlerts } }: AccountsProps) =>
  operatorAlerts.length === 0 ? null : (
    <div>
      <h3>{text.operatorAlerts}</h3>
      <Table
        caption={text.operatorAlerts}
        keyOf={({ created, text, receiver }) => [created, text, receiver].join()}
        rows={operatorAlerts}
        columns={[
          { title: text.message, cell: alert => alert.text },
          { title: text.receiver, cell: ({ receiver }) => receiver },
          { title: text.state, cell: alert => <DeliveryState {...alert} /> },
          { title: text.time, isTime: true, cell: ({ created }) => formatTime(created) },
        ]}
      />
    </div>
  )

const Alerts = ({ accounts: { alerts } }: AccountsProps) => (
  <div>
    <h3>{text.alerts}</h3>
    {alerts.length === 0 ? (
      <p class="lead">{text.noAlerts}</p>
    ) : (
      <Table
        caption={text.alerts}
        keyOf={({ account, created, type, threshold, network, channel }) => [account.id, created, type, threshold, network, channel].join()}
        rows={alerts}
        columns={[
          { title: text.account, cell: ({ account }) => <AccountLink {...account} /> },
          {
            title: texts.alert.title,
            cell: alert => `${formatAlert(alert)} ${alert.period === null ? '' : text.periods[alert.period]}`,
          },
          {
            title: text.state,
            cell: ({ channel, ...delivery }) => (
              <>
                {channel} <DeliveryState {...delivery} />
              </>
            ),
          },
          { title: text.time, isTime: true, cell: ({ created }) => formatTime(created) },
        ]}
      />
    )}
  </div>
)

/** As the page has found it: what it says above is newer than the reading of the gateway. */
const isStoreDown = (): boolean => connectionProblem.value?.ofStore === true

const Health = ({ gateway }: Pick<OverviewJson, 'gateway'>) => {
  const { storeErrors, workers, websockets, eventLoopLagMs, started, version } = gateway
  const { reason } = gateway.store
  const isUsable = gateway.store.usable && !isStoreDown()
  const store = (
    <>
      <Badge tone={isUsable ? 'ok' : 'danger'}>{isUsable ? text.answers : text.unreachable}</Badge>
      {storeErrors > 0 && ` ${formatNumber(storeErrors)} ${text.storeErrors}`}
    </>
  )
  const facts: readonly Fact[] = [
    [text.store, store],
    [text.started, formatMoment(started, now.value)],
    [text.version, version],
    [text.websockets, formatCount(websockets)],
    [text.eventLoop, formatLatency(eventLoopLagMs)],
    ...(workers.ready === null ? [] : [[text.workers, `${workers.ready} ${text.ready}, ${workers.missing ?? 0} ${text.missing}`] as const]),
  ]
  return (
    <>
      <h2>{text.health}</h2>
      <section class="card" aria-label={text.health}>
        <Facts of={facts} />
        {reason !== null && <p class="error">{reason}</p>}
      </section>
      <Capacity />
    </>
  )
}
