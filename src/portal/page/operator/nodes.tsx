import { useSignal } from '@preact/signals'
import type { EvidenceListJson, EvidenceSummaryJson } from '../../operations/evidence-operations.ts'
import type { NodeJson, NodesJson } from '../../operations/node-operations.ts'
import type { ActivityJson, OverviewJson } from '../../operator/overview-routes.ts'
import { Badge } from '../components/badge.tsx'
import type { Tone } from '../components/badge.tsx'
import { RowButton, SearchField, WhenLoaded } from '../components/controls.tsx'
import { Chart } from '../components/chart.tsx'
import { ConfirmDialog } from '../components/dialog.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Table } from '../components/table.tsx'
import { showToast } from '../components/toast.tsx'
import { formatNumber, formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import type { RequestError } from '../request.ts'
import { queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { formatMs, formatRate, formatShare } from './format-figures.ts'
import { nameClass, needsAttention, toneOfNode } from './node-state.ts'
import { operatorTexts } from './operator-texts.ts'
import { WrongResults } from './wrong-results.tsx'

const text = operatorTexts.nodes

type NetworkNodes = NodesJson['networks'][number]
type NetworkTraffic = OverviewJson['networks'][number]

/** With so many networks, one looks for a name. */
const minSearched = 6

/** What calls meet, network by network. */
export const Nodes = () => {
  const nodes = useRequest<NodesJson>('/nodes')
  const overview = useRequest<OverviewJson>('/overview')
  const evidence = useRequest<EvidenceListJson>('/evidence')
  const search = queryMember('search')
  const chosen = queryMember('network')
  const traffic = overview.data.value?.networks ?? []
  return (
    <WhenLoaded from={nodes}>
      {({ networks }) => {
        const found = networks.filter(({ name }) => name.includes(search.value.trim().toLowerCase()))
        return (
          <>
            {networks.length >= minSearched && (
              <div class="controls">
                <SearchField label={text.search} value={search.value} onInput={value => search.set(value, { isTyping: true })} />
              </div>
            )}
            {found.length === 0 && <EmptyState icon="nodes" title={texts.nothingFound} />}
            {found.map(network => (
              <Network
                key={network.name}
                network={network}
                traffic={traffic.find(({ name }) => name === network.name)}
                isOpen={networks.length === 1 || chosen.value === network.name}
                onToggle={networks.length === 1 ? undefined : () => chosen.set(chosen.value === network.name ? '' : network.name)}
                evidence={(evidence.data.value?.evidence ?? []).filter(each => each.network === network.name)}
                onChanged={() => {
                  nodes.reload()
                  evidence.reload()
                }}
              />
            ))}
          </>
        )
      }}
    </WhenLoaded>
  )
}

interface NetworkProps {
  readonly network: NetworkNodes
  /** Of the last minute. */
  readonly traffic: NetworkTraffic | undefined
  readonly isOpen: boolean
  readonly evidence: readonly EvidenceSummaryJson[]
  /** Undefined where its charts are always there. */
  readonly onToggle: (() => void) | undefined
  onChanged(): void
}

const Network = ({ network, traffic, evidence, isOpen, onToggle, onChanged }: NetworkProps) => {
  const { name, head, finalized, upstreams } = network
  const [tone, state] = stateOf(network)
  const facts = [
    [text.calls, formatNumber(traffic?.calls ?? 0)],
    [text.failed, formatShare(traffic && traffic.calls > 0 ? traffic.failedCalls / traffic.calls : null)],
    [text.p95, formatMs(traffic?.p95Ms)],
    [text.cacheHits, formatShare(traffic?.cacheHits)],
    // Nodes are polled while calls come in.
    [text.head, head === null ? text.notPolled : formatNumber(head)],
    [text.finalized, head === null ? text.notPolled : formatNumber(finalized)],
  ] as const
  return (
    <section class="card network" aria-label={name}>
      <div class="heading">
        <h2>{name}</h2>
        <Badge tone={tone}>{state}</Badge>
        {onToggle !== undefined && (
          <button
            type="button"
            class="quiet small"
            aria-expanded={isOpen}
            aria-label={`${isOpen ? text.hideCharts : text.showCharts}: ${name}`}
            onClick={onToggle}
          >
            {isOpen ? text.hideCharts : text.showCharts}
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
      {upstreams.length === 0 ? <p class="lead">{text.none}</p> : <NodeTable network={network} traffic={traffic} onChanged={onChanged} />}
      <WrongResults network={name} evidence={evidence} onChanged={onChanged} />
      {isOpen && <NodeCharts network={name} />}
    </section>
  )
}

const stateOf = ({ head, upstreams }: NetworkNodes): readonly [Tone, string] => {
  const own = upstreams.filter(({ partner }) => !partner)
  const inUse = own.filter(({ usable, drained }) => usable !== false && !drained)
  if (own.length === 0 || (head === null && inUse.length === own.length)) return ['neutral', text.networkStates.noCalls]
  if (inUse.length === 0) return ['danger', text.networkStates.down]
  return own.some(needsAttention) ? ['warn', text.networkStates.degraded] : ['ok', text.networkStates.ok]
}

const NodeTable = ({
  network: { name: network, upstreams },
  traffic,
  onChanged,
}: Pick<NetworkProps, 'network' | 'traffic' | 'onChanged'>) => {
  const trafficOf = (node: NodeJson) => traffic?.upstreams.find(each => each.name === node.name)
  return (
    <Table
      caption={`${operatorTexts.pages.nodes} ${network}`}
      keyOf={node => node.name}
      rows={upstreams}
      columns={[
        {
          title: text.upstream,
          cell: node => (
            <>
              <span class="row-name">{node.name}</span> {node.partner && <Badge isLabel>{text.partner}</Badge>}
            </>
          ),
        },
        { title: text.state, cell: node => <State node={node} /> },
        { title: text.lag, isNumber: true, cell: ({ lagBlocks }) => formatNumber(lagBlocks) },
        { title: text.share, isNumber: true, cell: node => formatShare(trafficOf(node)?.share) },
        { title: text.failures, isNumber: true, cell: node => formatNumber(trafficOf(node)?.failures ?? 0) },
        {
          title: text.latencies,
          isNumber: true,
          cell: node => `${formatMs(trafficOf(node)?.p50Ms)} / ${formatMs(trafficOf(node)?.p95Ms)}`,
        },
        { title: text.inFlight, isNumber: true, cell: ({ inFlight }) => formatNumber(inFlight) },
        { title: text.actions, cell: node => <DrainNode network={network} node={node} onChanged={onChanged} /> },
      ]}
    />
  )
}

/** Whether calls reach the node, all that keeps calls away, and what has lately. */
const State = ({ node }: { readonly node: NodeJson }) => {
  const { usable, drained, drainedSince, because, reasons, lastReasons } = node
  const state = drained ? 'drained' : usable === false ? 'notUsable' : reasons.length > 0 ? 'reduced' : 'usable'
  const isNow = (last: NodeJson['lastReasons'][number]): boolean =>
    last.reason === 'drained' || reasons.some(({ class: methodClass, reason }) => methodClass === last.class && reason === last.reason)
  const past = because === null ? lastReasons.filter(each => !isNow(each)).slice(0, 2) : []
  return (
    <>
      <Badge tone={toneOfNode(node)}>{text.states[state]}</Badge>
      {drainedSince !== null && (
        <p class="help">
          {text.since} {formatTime(drainedSince)}
        </p>
      )}
      {because !== null && <p class="error">{because}</p>}
      {reasons
        .filter(({ reason }) => reason !== 'drained')
        .map(({ class: methodClass, reason, text: rule }) => (
          <p key={`${methodClass} ${reason}`} class="help">
            {nameClass(methodClass)}: {rule}
          </p>
        ))}
      {past.map(({ class: methodClass, reason, at }) => (
        <p key={`${methodClass} ${reason}`} class="help">
          {text.last}: {reason} ({nameClass(methodClass)}), {formatTime(at)}
        </p>
      ))}
    </>
  )
}

interface DrainProps {
  readonly network: string
  readonly node: NodeJson
  onChanged(): void
}

/** The last node that gets calls is asked about once more. */
const DrainNode = ({ network, node: { name, drained, inFlight }, onChanged }: DrainProps) => {
  const isAsking = useSignal(false)
  const isLast = useSignal(false)
  const pathOf = (action: string): string => `/nodes/${encodeURIComponent(network)}/${encodeURIComponent(name)}/${action}`
  const drain = async (): Promise<void> => {
    try {
      await request('POST', pathOf('drain'), { force: isLast.value })
      onChanged()
    } catch (reason) {
      isLast.value = (reason as RequestError).code === 'last-node' // request() throws nothing else
      throw reason
    }
  }
  const undrain = async (): Promise<void> => {
    try {
      await request('POST', pathOf('undrain'))
      onChanged()
    } catch (reason) {
      showToast((reason as Error).message, 'danger')
    }
  }
  if (drained) return <RowButton label={text.undrain} of={name} onClick={() => void undrain()} />
  return (
    <>
      <RowButton label={text.drain} of={name} onClick={() => ([isAsking.value, isLast.value] = [true, false])} />
      {isAsking.value && (
        <ConfirmDialog
          title={`${text.drain} ${name}`}
          action={isLast.value ? text.drainLast : text.drain}
          confirm={drain}
          onClose={() => (isAsking.value = false)}
        >
          {`${text.confirmDrain} ${inFlight === null || inFlight === 0 ? '' : `${text.inFlight}: ${formatNumber(inFlight)}.`}`}
        </ConfirmDialog>
      )}
    </>
  )
}

const seriesColors = ['data', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6', 'series-7', 'series-8']

const NodeCharts = ({ network }: { readonly network: string }) => {
  const activity = useRequest<ActivityJson>(`/overview/activity?${new URLSearchParams({ network })}`)
  return (
    <WhenLoaded from={activity} skeleton={<Skeleton height={14} />}>
      {({ times, nodes }) => {
        const linesOf = (figure: 'requestsPerSecond' | 'failuresPerSecond' | 'p95Ms') =>
          nodes.map((node, i) => ({
            id: node.name,
            name: node.name,
            points: node[figure],
            color: seriesColors[i % seriesColors.length] ?? 'data',
          }))
        if (times.length < 2 || nodes.length === 0) return <p class="lead">{text.noHistory}</p>
        return (
          <div class="cards charts">
            <Chart kind="lines" isCompact title={text.p95OfNodes} times={times} format={formatMs} series={linesOf('p95Ms')} />
            <Chart kind="lines" isCompact title={text.shareChart} times={times} format={formatShare} series={sharesOf(nodes)} />
            <Chart
              kind="lines"
              isCompact
              title={text.failuresChart}
              times={times}
              format={formatRate}
              series={linesOf('failuresPerSecond')}
            />
          </div>
        )
      }}
    </WhenLoaded>
  )
}

/** Of the attempts of all nodes of the network. */
const sharesOf = (nodes: ActivityJson['nodes']) => {
  const totals = (nodes[0]?.requestsPerSecond ?? []).map((_, i) => nodes.reduce((sum, node) => sum + (node.requestsPerSecond[i] ?? 0), 0))
  return nodes.map((node, i) => ({
    id: node.name,
    name: node.name,
    points: node.requestsPerSecond.map((rate, at) => (rate === null || (totals[at] ?? 0) === 0 ? null : rate / (totals[at] ?? 1))),
    color: seriesColors[i % seriesColors.length] ?? 'data',
  }))
}
