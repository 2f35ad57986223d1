import { useEffect, useRef } from 'preact/hooks'
import type { EvidenceListJson, EvidenceSummaryJson } from '../../operations/evidence-operations.ts'
import type { NodeJson, NodesJson } from '../../operations/node-operations.ts'
import type { ActivityJson, OverviewJson } from '../../operator/overview-routes.ts'
import { nodeReasonLabels } from '../../state-labels.ts'
import { now } from '../clock.ts'
import { Badge } from '../components/badge.tsx'
import { SearchField, WhenLoaded } from '../components/controls.tsx'
import { LineCharts } from '../components/chart.tsx'
import type { ChartSeries } from '../components/chart.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { NewestBlock, StateBadge, usableNodesOf } from '../components/network-state.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Pager, Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatLatency, formatMoment, formatNumber, formatSeconds, hourMs } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, pagerOffset, queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { DrainNode, PutBack } from './drain-node.tsx'
import { formatPart, formatRate, formatShare, toneOfFailures } from './format-figures.ts'
import { Incidents } from './incidents.tsx'
import { ErrorsLink } from './links.tsx'
import { NodeTimes, NodeWhy, byProblem, hasProblem, nameClass, needsAttention, toneOfNode, useNodes } from './node-state.tsx'
import type { NetworkNodes } from './node-state.tsx'
import { operatorTexts } from './operator-texts.ts'
import { WrongResults } from './wrong-results.tsx'

const text = operatorTexts.nodes

type NetworkTraffic = OverviewJson['networks'][number]

/** With so many networks, one looks for a name, and the nodes of those without problems are folded away. */
const minSearched = 6

/** Those of hundreds of networks would take a browser seconds. */
const networksPerPage = 50

/** What calls meet, network by network: those with problems first. */
export const Nodes = () => {
  const nodes = useNodes()
  const overview = useRequest<OverviewJson>('/overview')
  const evidence = useRequest<EvidenceListJson>('/evidence')
  const search = queryMember('search')
  const chosen = queryMember('network')
  const filter = queryMember('show', 'all')
  const offset = pagerOffset(queryMember('first', '0'))
  const isFiltered = filter.value === 'problems'
  const { seconds = 0, networks: traffic = [] } = overview.data.value ?? {}
  const trafficOf = ({ name }: NetworkNodes) => traffic.find(each => each.name === name)
  const needsLook = (network: NetworkNodes): boolean => hasProblem(network) || doCallsFail(trafficOf(network))
  return (
    <WhenLoaded from={nodes}>
      {({ networks, unconfigured }) => {
        const isLong = networks.length >= minSearched
        const found = networks
          .filter(network => network.name.includes(search.value.trim().toLowerCase()) && (!isFiltered || needsLook(network)))
          .toSorted((a, b) => Number(needsLook(b)) - Number(needsLook(a)) || byProblem(a, b))
        return (
          <>
            <p class="lead">{text.lead}</p>
            {isLong && (
              <div class="controls">
                <SearchField
                  label={text.search}
                  value={search.value}
                  onInput={value => changeQuery({ search: value, first: '' }, { isTyping: true })}
                />
                <Segments
                  label={text.filter}
                  options={[
                    { value: 'all', label: text.filters.all },
                    { value: 'problems', label: text.filters.problems },
                  ]}
                  value={isFiltered ? 'problems' : 'all'}
                  onChange={value => changeQuery({ show: value === 'all' ? '' : value, first: '' })}
                />
              </div>
            )}
            {found.length === 0 && (
              <EmptyState icon="nodes" title={isFiltered && search.value === '' ? text.noProblems : texts.nothingFound} />
            )}
            {pageOf(found, offset.value, chosen.value).map(network => (
              <Network
                key={network.name}
                network={network}
                seconds={seconds}
                traffic={trafficOf(network)}
                isFolded={isLong && !needsLook(network)}
                isOpen={networks.length === 1 || chosen.value === network.name}
                onToggle={networks.length === 1 ? undefined : () => chosen.set(chosen.value === network.name ? '' : network.name)}
                evidence={(evidence.data.value?.evidence ?? []).filter(each => each.network === network.name)}
                onChanged={() => {
                  nodes.reload()
                  evidence.reload()
                }}
              />
            ))}
            <Pager offset={offset} size={networksPerPage} count={found.length} />
            {unconfigured.length > 0 && <UnconfiguredNodes nodes={unconfigured} onChanged={nodes.reload} />}
          </>
        )
      }}
    </WhenLoaded>
  )
}

/** A link to a network leads to it, wherever it is in the list: then it comes first. */
const pageOf = (found: readonly NetworkNodes[], first: number, chosen: string): readonly NetworkNodes[] => {
  const shown = found.slice(first, first + networksPerPage)
  const elsewhere = found.filter(({ name }) => name === chosen && !shown.some(each => each.name === name))
  return [...elsewhere, ...shown]
}

interface UnconfiguredProps {
  readonly nodes: NodesJson['unconfigured']
  onChanged(): void
}

/** Drained nodes that would be drained if they came back. */
const UnconfiguredNodes = ({ nodes, onChanged }: UnconfiguredProps) => (
  <section class="card">
    <h2>{text.unconfigured}</h2>
    <p class="lead">{text.unconfiguredHelp}</p>
    <Table
      caption={text.unconfigured}
      keyOf={node => `${node.network}/${node.name}`}
      rows={nodes}
      columns={[
        { title: text.upstream, cell: node => <span class="row-name">{`${node.network}/${node.name}`}</span> },
        { title: text.state, cell: node => <NodeTimes node={node} /> },
        {
          title: text.actions,
          cell: ({ network, name }) => <PutBack network={network} name={name} of={`${network}/${name}`} onChanged={onChanged} />,
        },
      ]}
    />
  </section>
)

interface NetworkProps {
  readonly network: NetworkNodes
  /** Of the last minute. */
  readonly traffic: NetworkTraffic | undefined
  /** How long that is. */
  readonly seconds: number
  readonly isOpen: boolean
  /** Its nodes are shown while it is open. */
  readonly isFolded: boolean
  readonly evidence: readonly EvidenceSummaryJson[]
  /** Undefined where its charts are always there. */
  readonly onToggle: (() => void) | undefined
  onChanged(): void
}

const Network = ({ network, traffic, seconds, evidence, isOpen, isFolded, onToggle, onChanged }: NetworkProps) => {
  const { name, state, finalized, upstreams } = network
  const section = useRef<HTMLElement>(null)
  // A link to the network leads to it, which may be one of many.
  useEffect(() => void (isOpen && onToggle !== undefined && section.current?.scrollIntoView({ block: 'nearest' })), [])
  const [show, hide] = isFolded ? [text.showNodes, text.hideNodes] : [text.showCharts, text.hideCharts]
  const facts = [
    [text.calls, formatRate(seconds > 0 ? (traffic?.calls ?? 0) / seconds : 0)],
    [text.failed, <Failed key={text.failed} network={name} traffic={traffic} />],
    [text.p95, formatLatency(traffic?.p95Ms)],
    [text.cacheHits, formatShare(traffic?.cacheHits)],
    [text.head, <NewestBlock key={text.head} {...network} />],
    [text.finalized, formatNumber(finalized)],
  ] as const
  return (
    <section class="card network" aria-label={name} ref={section}>
      <div class="heading">
        <h2>{name}</h2>
        <StateBadge state={state} />
        <span class="since">{usableNodesOf(network)}</span>
        {onToggle !== undefined && (
          <button
            type="button"
            class="quiet small"
            aria-expanded={isOpen}
            aria-label={`${isOpen ? hide : show}: ${name}`}
            onClick={onToggle}
          >
            {isOpen ? hide : show}
          </button>
        )}
      </div>
      <dl class="facts">
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {upstreams.length === 0 && <p class="lead">{text.none}</p>}
      {upstreams.length > 0 && (isOpen || !isFolded) && <NodeTable network={network} traffic={traffic} onChanged={onChanged} />}
      <WrongResults network={name} evidence={evidence} onChanged={onChanged} />
      {isOpen && <NodeCharts network={name} />}
      {isOpen && <NodeErrors upstreams={upstreams} />}
      {isOpen && <h3>{operatorTexts.incidents.title}</h3>}
      {isOpen && <Incidents network={name} />}
    </section>
  )
}

const NodeTable = ({ network, traffic, onChanged }: Pick<NetworkProps, 'network' | 'traffic' | 'onChanged'>) => {
  const trafficOf = (node: NodeJson) => traffic?.upstreams.find(each => each.name === node.name)
  return (
    <Table
      caption={`${operatorTexts.pages.nodes} ${network.name}`}
      keyOf={node => node.name}
      rows={network.upstreams}
      detailOf={node => detailOf(node, trafficOf(node)?.errors[0]?.error)}
      columns={[
        {
          title: text.upstream,
          cell: node => (
            <>
              <span class="row-name">{node.name}</span> {node.partner && <Badge isLabel>{text.partner}</Badge>}
            </>
          ),
        },
        { title: text.state, cell: node => <Badge tone={toneOfNode(node)}>{text.conditions[node.condition]}</Badge> },
        { title: text.lag, isNumber: true, cell: ({ lagBlocks }) => formatNumber(lagBlocks) },
        { title: text.share, isNumber: true, cell: node => formatPart(trafficOf(node)?.share) },
        { title: text.failures, isNumber: true, cell: node => formatNumber(trafficOf(node)?.failures ?? 0) },
        {
          title: text.latencies,
          isNumber: true,
          cell: node => `${formatLatency(trafficOf(node)?.p50Ms)} / ${formatLatency(trafficOf(node)?.p95Ms)}`,
        },
        { title: text.inFlight, isNumber: true, cell: ({ inFlight }) => formatNumber(inFlight) },
        {
          title: text.actions,
          cell: node => <DrainNode network={network} node={node} share={trafficOf(node)?.share} of={node.name} onChanged={onChanged} />,
        },
      ]}
    />
  )
}

/** As Home has it. */
const doCallsFail = (traffic: NetworkTraffic | undefined): boolean => traffic !== undefined && toneOfFailures(traffic) === 'danger'

const failedShareOf = (traffic: NetworkTraffic | undefined): number | null =>
  traffic && traffic.calls > 0 ? traffic.failedCalls / traffic.calls : null

const Failed = ({ network, traffic }: Pick<NetworkProps, 'traffic'> & { readonly network: string }) => {
  const share = formatShare(failedShareOf(traffic))
  if (!doCallsFail(traffic)) return share
  return (
    <>
      <span class="error">{share}</span>
      <span class="line">
        <ErrorsLink network={network}>{operatorTexts.home.seeErrors}</ErrorsLink>
      </span>
    </>
  )
}

const labelOf = (reason: string): string => (nodeReasonLabels as Readonly<Record<string, string>>)[reason] ?? reason

/** All that keeps calls from the node, and what has lately. `error`: what attempts of the last minute have failed with most. */
const detailOf = (node: NodeJson, error: string | undefined) => {
  const { because, reasons, lastReasons } = node
  const isNow = (last: NodeJson['lastReasons'][number]): boolean =>
    last.reason === 'drained' || reasons.some(({ class: methodClass, reason }) => methodClass === last.class && reason === last.reason)
  const past = because === null ? lastReasons.filter(each => !isNow(each)).slice(0, 2) : []
  const isError = error !== undefined && because?.includes(error) !== true
  if (!needsAttention(node) && because === null && reasons.length === 0 && past.length === 0 && !isError) return undefined
  return (
    <>
      <NodeWhy node={node} />
      {isError && (
        <p class="help">
          {text.failsWith} {error}
        </p>
      )}
      <NodeTimes node={node} />
      {past.map(({ class: methodClass, reason, at }) => (
        <p key={`${methodClass} ${reason}`} class="help">
          {text.last}: {labelOf(reason)} ({nameClass(methodClass)}), {formatMoment(at, now.value)}
        </p>
      ))}
    </>
  )
}

const seriesColors = ['data', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6', 'series-7', 'series-8']

const NodeCharts = ({ network }: { readonly network: string }) => {
  const activity = useRequest<ActivityJson>(`/overview/activity?${new URLSearchParams({ network })}`)
  return (
    <WhenLoaded from={activity} skeleton={<Skeleton height={14} />}>
      {({ times, nodes }) => {
        if (times.length < 2 || nodes.length === 0) return <p class="lead">{text.noHistory}</p>
        return (
          <LineCharts
            times={times}
            rangeMs={hourMs}
            charts={[
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

/** What they have failed with, and an example of each to look for in the log. */
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
            { title: text.requestId, cell: ({ requestId }) => <code class="breakable">{requestId}</code> },
          ]}
        />
      )}
    </>
  )
}
