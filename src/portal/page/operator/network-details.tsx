import type { EvidenceSummaryJson } from '../../operations/evidence-operations.ts'
import type { ActivityJson } from '../../operator/overview-routes.ts'
import type { ChartSeries } from '../components/chart.tsx'
import { WhenLoaded } from '../components/controls.tsx'
import { Facts } from '../components/facts.tsx'
import type { Fact } from '../components/facts.tsx'
import { NewestBlock, StateBadge, usableNodesOf } from '../components/network-state.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatLatency, formatNumber, formatSeconds } from '../format.ts'
import { useRequest } from '../request.ts'
import { queryMember } from '../router.ts'
import { ActivityLines, activityRanges, failedShareChart, rangeOf } from './activity-charts.tsx'
import { formatRate, formatShare } from './format-figures.ts'
import { Incidents } from './incidents.tsx'
import { RequestLink } from './links.tsx'
import type { NodeRow } from './node-rows.ts'
import { FailedShare, formatLatencyOf } from './node-state.tsx'
import type { NetworkNodes, NetworkTraffic } from './node-state.tsx'
import { NodeTable } from './node-table.tsx'
import { operatorTexts } from './operator-texts.ts'
import { WrongResults } from './wrong-results.tsx'

const text = operatorTexts.nodes

interface NetworkDetailsProps {
  readonly network: NetworkNodes
  /** Its nodes, in the order in which they are shown. */
  readonly rows: readonly NodeRow[]
  /** Of the last minute. */
  readonly traffic: NetworkTraffic | undefined
  /** How long that is. */
  readonly seconds: number
  readonly evidence: readonly EvidenceSummaryJson[]
  onChanged(): void
}

/** All that is known of one network. */
export const NetworkDetails = ({ network, rows, traffic, seconds, evidence, onChanged }: NetworkDetailsProps) => {
  const { name, state, finalized, upstreams } = network
  const node = queryMember('node')
  const facts: readonly Fact[] = [
    [text.calls, formatRate(seconds > 0 ? (traffic?.calls ?? 0) / seconds : 0)],
    [operatorTexts.gatewayErrors, <FailedShare key={operatorTexts.gatewayErrors} network={network} traffic={traffic} />],
    [text.p95, formatLatencyOf(network, traffic?.p95Ms)],
    [text.cacheHits, formatShare(traffic?.cacheHits)],
    [text.head, <NewestBlock key={text.head} {...network} />],
    [text.finalized, formatNumber(finalized)],
  ]
  return (
    <section class="network" aria-label={name}>
      <div class="card">
        <div class="heading">
          <h2>{name}</h2>
          <StateBadge state={state} />
          <span class="since">{usableNodesOf(network)}</span>
        </div>
        <Facts of={facts} />
      </div>
      {upstreams.length === 0 ? (
        <p class="lead">{text.none}</p>
      ) : (
        <NodeTable
          caption={`${operatorTexts.pages.nodes} ${name}`}
          rows={rows}
          hasNetworks={false}
          chosen={node.value}
          onChanged={onChanged}
        />
      )}
      <Turns upstreams={upstreams} />
      <WrongResults network={name} evidence={evidence} onChanged={onChanged} />
      <NodeCharts network={name} />
      <NodeErrors upstreams={upstreams} />
      <h3>{operatorTexts.incidents.title}</h3>
      <Incidents network={name} />
    </section>
  )
}

/** Why each node gets the share that it has while all are usable. */
const Turns = ({ upstreams }: Pick<NetworkNodes, 'upstreams'>) => {
  const known = upstreams.filter(({ getsCalls }) => getsCalls !== null)
  if (known.length === 0) return null
  return (
    <ul class="help">
      {known.map(({ name, getsCalls }) => (
        <li key={name}>{`${name} ${text.gets} ${getsCalls}.`}</li>
      ))}
    </ul>
  )
}

const seriesColors = ['data', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6', 'series-7', 'series-8']

const NodeCharts = ({ network }: { readonly network: string }) => {
  const range = queryMember('range', '1h')
  const shown = rangeOf(range.value)
  return (
    <>
      <div class="section-heading">
        <h3>{operatorTexts.home.overTime}</h3>
        <Segments label={operatorTexts.home.range} options={activityRanges} value={shown} onChange={range.set} />
      </div>
      <ActivityCharts key={shown} network={network} range={shown} />
    </>
  )
}

const ActivityCharts = ({ network, range }: { readonly network: string; readonly range: ReturnType<typeof rangeOf> }) => {
  const activity = useRequest<ActivityJson>(`/overview/activity?${new URLSearchParams({ network, range })}`)
  return (
    <WhenLoaded from={activity} skeleton={<Skeleton height={14} />}>
      {found => {
        const { calls, nodes } = found
        if (nodes.length === 0) return <p class="lead">{text.noHistory}</p>
        return (
          <ActivityLines
            activity={found}
            range={range}
            charts={[
              failedShareChart(calls),
              {
                title: text.p95OfNodes,
                format: formatLatency,
                series: toLines(nodes.map(({ name, p95Ms }) => ({ name, points: p95Ms }))),
              },
              { title: text.shareChart, format: formatShare, series: sharesOf(nodes) },
              { title: text.failuresChart, format: formatRate, series: toLines(failuresOf(nodes)) },
            ]}
          />
        )
      }}
    </WhenLoaded>
  )
}

const toLines = (series: readonly Pick<ChartSeries, 'name' | 'points'>[]): readonly ChartSeries[] =>
  series.map((each, i) => ({ ...each, id: each.name, color: seriesColors[i % seriesColors.length] ?? 'data' }))

/** By what nodes fail with, the most frequent first; of nodes that fail nothing, a line of each. */
const failuresOf = (nodes: ActivityJson['nodes']) => {
  const totalOf = (points: readonly (number | null)[]): number => points.reduce<number>((sum, point) => sum + (point ?? 0), 0)
  const failing = nodes
    .flatMap(({ name, errors }) => errors.map(({ error, failuresPerSecond: points }) => ({ name: `${name}: ${error}`, points })))
    .sort((a, b) => totalOf(b.points) - totalOf(a.points))
  return failing.length === 0
    ? nodes.map(({ name, failuresPerSecond: points }) => ({ name, points }))
    : failing.slice(0, seriesColors.length)
}

/** Of the attempts of all nodes of the network. */
const sharesOf = (nodes: ActivityJson['nodes']) => {
  const totals = (nodes[0]?.requestsPerSecond ?? []).map((_, i) => nodes.reduce((sum, node) => sum + (node.requestsPerSecond[i] ?? 0), 0))
  return toLines(
    nodes.map(({ name, requestsPerSecond }) => ({
      name,
      points: requestsPerSecond.map((rate, at) => (rate === null || (totals[at] ?? 0) === 0 ? null : rate / (totals[at] ?? 1))),
    })),
  )
}

/** What they have failed with, and an example of each: in the log, and on Requests where its account has it logged. */
const NodeErrors = ({ upstreams }: Pick<NetworkNodes, 'upstreams'>) => {
  const errors = upstreams
    .flatMap(({ name, errors }) => errors.map(each => ({ node: name, ...each })))
    .toSorted((a, b) => (a.lastSeen < b.lastSeen ? 1 : -1))
  return (
    <>
      <h3>{text.errors}</h3>
      {errors.length === 0 && <p class="lead">{text.noErrors}</p>}
      {errors.length > 0 && (
        <Table
          caption={text.errors}
          keyOf={({ node, error }) => `${node} ${error}`}
          rows={errors}
          columns={[
            { title: text.upstream, cell: ({ node }) => <span class="row-name">{node}</span> },
            { title: text.error, cell: ({ error }) => error },
            { title: text.failures, isNumber: true, cell: ({ count }) => formatNumber(count) },
            { title: text.lastSeen, isTime: true, cell: ({ lastSeen }) => formatSeconds(lastSeen) },
            { title: text.method, cell: ({ method }) => <code>{method}</code> },
            { title: text.requestId, cell: ({ requestId }) => <RequestLink id={requestId} /> },
          ]}
        />
      )}
    </>
  )
}
