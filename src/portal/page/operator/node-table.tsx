import { useEffect } from 'preact/hooks'
import type { NodeJson } from '../../operations/node-operations.ts'
import { nodeReasonLabels } from '../../state-labels.ts'
import { now } from '../clock.ts'
import { Badge } from '../components/badge.tsx'
import { NewestBlock, StateBadge, usableNodesOf } from '../components/network-state.tsx'
import { Table } from '../components/table.tsx'
import { formatLatency, formatMoment, formatNumber } from '../format.ts'
import { queryMember } from '../router.ts'
import { DrainNode } from './drain-node.tsx'
import { formatPart } from './format-figures.ts'
import { formatOrdinal } from './format-ordinal.ts'
import { NetworkLink, NodeLink, nameOfNode } from './links.tsx'
import { byNetwork, nextOrder, readOrder } from './node-rows.ts'
import type { NodeRow } from './node-rows.ts'
import { FailedShare, LastFailure, NodeTimes, NodeWhy, formatLatencyOf, nameClass, needsAttention, toneOfNode } from './node-state.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.nodes

interface NodeTableProps {
  readonly caption: string
  readonly rows: readonly NodeRow[]
  /** The rows are of several networks. */
  readonly hasNetworks: boolean
  /** Name of the node that a link leads to. */
  readonly chosen?: string
  onChanged(): void
}

/** One row a node: below its network, or in the order of a column. */
export const NodeTable = ({ caption, rows, hasNetworks, chosen = '', onChanged }: NodeTableProps) => {
  const sort = queryMember('sort')
  const { by, isDescending } = readOrder(sort.value)
  const isGrouped = hasNetworks && by === byNetwork
  useEffect(() => {
    if (chosen !== '') document.querySelector('tr[aria-current]')?.scrollIntoView({ block: 'center' })
  }, [chosen])
  const networkColumn = {
    title: text.network,
    sort: byNetwork,
    cell: ({ network }: NodeRow) => <NetworkLink name={network.name} />,
  }
  return (
    <Table
      caption={caption}
      keyOf={({ id }) => id}
      rows={rows}
      isLong
      isChosen={({ node }) => chosen !== '' && node?.name === chosen}
      order={{ by, isDescending, sortBy: column => sort.set(nextOrder(sort.value, column)) }}
      groups={isGrouped ? networkGroups : undefined}
      detailOf={detailOf}
      columns={[
        { title: text.upstream, sort: 'node', cell: row => <NodeName {...row} hasNetworks={hasNetworks} /> },
        ...(hasNetworks && !isGrouped ? [networkColumn] : []),
        {
          title: text.state,
          sort: 'state',
          cell: ({ node }) => node && <Badge tone={toneOfNode(node)}>{text.conditions[node.condition]}</Badge>,
        },
        { title: text.lag, sort: 'lag', isNumber: true, cell: ({ node }) => formatNumber(node?.lagBlocks ?? null) },
        { title: text.attempts, sort: 'attempts', isNumber: true, cell: ({ traffic }) => formatNumber(traffic?.requests ?? null) },
        {
          title: text.share,
          sort: 'share',
          isNumber: true,
          cell: ({ traffic }) => formatPart(traffic?.share),
        },
        { title: text.failures, sort: 'failures', isNumber: true, cell: ({ traffic }) => <Failures count={traffic?.failures ?? 0} /> },
        { title: text.p50, sort: 'p50', isNumber: true, cell: row => <Latency ms={row.traffic?.p50Ms} of={row} /> },
        { title: text.p95, sort: 'p95', isNumber: true, cell: row => <Latency ms={row.traffic?.p95Ms} of={row} /> },
        { title: text.inFlight, sort: 'inFlight', isNumber: true, cell: ({ node }) => formatNumber(node?.inFlight ?? null) },
        {
          title: text.actions,
          cell: ({ network, node, traffic }) =>
            node && (
              <DrainNode
                network={network}
                node={node}
                share={traffic?.share}
                of={hasNetworks ? nameOfNode(network.name, node.name) : node.name}
                onChanged={onChanged}
              />
            ),
        },
      ]}
    />
  )
}

const formatPlace = (place: number): string => (place === 1 ? text.firstChoice : `${text.standby}, ${formatOrdinal(place)} ${text.choice}`)

/** Below its name: what runs there, and its turn, where nodes have one. */
const Identity = ({ node, hasTurns }: { readonly node: NodeJson; readonly hasTurns: boolean }) => {
  const { client, place, weight, getsCalls } = node
  const turn = !hasTurns || place === null ? [] : weight === null ? formatPlace(place) : `${text.weight} ${formatNumber(weight)}`
  const parts = [client ?? [], turn].flat()
  return parts.length === 0 ? null : (
    <p class="help" title={getsCalls ?? undefined}>
      {parts.join(', ')}
    </p>
  )
}

const NodeName = ({ network, node, evidence, hasNetworks }: NodeRow & Pick<NodeTableProps, 'hasNetworks'>) => {
  if (node === undefined) return <>–</>
  return (
    <>
      <span class="row-name">{hasNetworks ? <NodeLink network={network.name} node={node.name} isShort /> : node.name}</span>{' '}
      {node.partner && <Badge isLabel>{text.partner}</Badge>}
      {evidence.length > 0 && (
        <Badge tone={evidence.some(({ proven }) => proven) ? 'danger' : 'warn'} isLabel>
          {operatorTexts.wrongResults.attention}
        </Badge>
      )}
      <Identity node={node} hasTurns={network.nodes > 1} />
    </>
  )
}

const Failures = ({ count }: { readonly count: number }) => <span class={count > 0 ? 'error' : undefined}>{formatNumber(count)}</span>

/** So many make a percentile of them. */
const minAttempts = 20

/** Pale where it says little. That of a node which is down is from before. */
const Latency = ({ ms, of: { node, traffic } }: { readonly ms: number | null | undefined; readonly of: NodeRow }) => {
  if (node?.condition === 'notUsable') return <>{formatLatency(null)}</>
  const isOfFew = traffic !== undefined && traffic.requests < minAttempts
  return (
    <span class={isOfFew ? 'since' : undefined} title={isOfFew ? `${text.fewAttempts} ${formatNumber(traffic.requests)}` : undefined}>
      {formatLatency(ms)}
    </span>
  )
}

/** What its callers notice. */
const networkGroups = {
  keyOf: ({ network }: NodeRow) => network.name,
  heading: ({ network, ofNetwork }: NodeRow) => (
    <div class="network-line">
      <span class="row-name">
        <NetworkLink name={network.name} />
      </span>
      <StateBadge state={network.state} />
      <span>{usableNodesOf(network)}</span>
      <span>
        {operatorTexts.gatewayErrors} <FailedShare network={network} traffic={ofNetwork} />
      </span>
      <span class="one-line">{`p50 ${formatLatencyOf(network, ofNetwork?.p50Ms)}`}</span>
      <span class="one-line">{`p95 ${formatLatencyOf(network, ofNetwork?.p95Ms)}`}</span>
      <span>
        {text.head} <NewestBlock {...network} />
      </span>
    </div>
  ),
} as const

const labelOf = (reason: string): string => (nodeReasonLabels as Readonly<Record<string, string>>)[reason] ?? reason

/** All that keeps calls from the node, and what has lately. */
const detailOf = ({ node, traffic }: NodeRow) => {
  if (node === undefined) return <p class="help">{text.none}</p>
  const error = traffic?.errors[0]?.error
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
      {node.condition !== 'drained' && <LastFailure node={node} />}
      <NodeTimes node={node} />
      {node.drained && node.inFlight === 0 && <p class="help">{text.canBeStopped}</p>}
      {past.map(({ class: methodClass, reason, at }) => (
        <p key={`${methodClass} ${reason}`} class="help">
          {text.last}: {labelOf(reason)} ({nameClass(methodClass)}), {formatMoment(at, now.value)}
        </p>
      ))}
    </>
  )
}
