import { useSignal } from '@preact/signals'
import type { EvidenceListJson } from '../../operations/evidence-operations.ts'
import type { NodesJson } from '../../operations/node-operations.ts'
import type { OverviewJson } from '../../operator/overview-routes.ts'
import type { NodesAndProblemsJson } from '../../operator/problems.ts'
import { SearchField, WhenLoaded } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { loadLater } from '../components/load-later.tsx'
import { Pager, Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, pagerOffset, queryMember, withQuery } from '../router.ts'
import { texts } from '../texts.ts'
import { PutBack } from './drain-node.tsx'
import type { DrainNodesProps } from './drain-nodes.tsx'
import { PageLink } from './links.tsx'
import { NetworkDetails } from './network-details.tsx'
import { byNetwork, groupRows, matches, nodeRows, readOrder, sortRows } from './node-rows.ts'
import { NodeTimes, areOfNodes, useNodes } from './node-state.tsx'
import { NodeTable } from './node-table.tsx'
import { operatorTexts } from './operator-texts.ts'
import { useStableOrder } from './stable-order.ts'

const text = operatorTexts.nodes

/** Fewer are seen at a glance. */
const minSearched = 6

/** Those of hundreds of networks would take a browser seconds. */
const nodesPerPage = 100

/** What calls meet: all nodes, or one network with all that is known of it. */
export const Nodes = () => {
  const nodes = useNodes()
  const overview = useRequest<OverviewJson>('/overview')
  const evidence = useRequest<EvidenceListJson>('/evidence')
  const onChanged = (): void => {
    nodes.reload()
    evidence.reload()
  }
  return (
    <WhenLoaded from={nodes}>
      {found => (
        <LoadedNodes found={found} overview={overview.data.value} evidence={evidence.data.value?.evidence ?? []} onChanged={onChanged} />
      )}
    </WhenLoaded>
  )
}

const DrainNodes = loadLater(() => import('./drain-nodes.tsx')).component<DrainNodesProps>(code => code.DrainNodes, null)

interface LoadedNodesProps {
  readonly found: NodesAndProblemsJson
  readonly overview: OverviewJson | undefined
  readonly evidence: EvidenceListJson['evidence']
  onChanged(): void
}

const LoadedNodes = ({
  found: { networks, unconfigured, nodesWithProblems, ...read },
  overview,
  evidence,
  onChanged,
}: LoadedNodesProps) => {
  const problems = read.problems.filter(areOfNodes)
  const [search, filter, chosen, sort] = [queryMember('search'), queryMember('show', 'all'), queryMember('network'), queryMember('sort')]
  const offset = pagerOffset(queryMember('first', '0'))
  const isDraining = useSignal(false)
  const isSingle = networks.length === 1
  const chosenName = isSingle ? networks[0]?.name : networks.find(({ name }) => name === chosen.value)?.name
  const isFiltered = filter.value === 'problems' && chosenName === undefined
  const all = nodeRows({ networks, overview, evidence, problems, nodesWithProblems })
  const ofNetwork = all.filter(({ network }) => chosenName === undefined || network.name === chosenName)
  const isLong = ofNetwork.length >= minSearched
  const shownSearch = isLong ? search.value.trim() : ''
  const found = ofNetwork.filter(row => matches(row, shownSearch) && (!isFiltered || row.hasProblem))
  const rowsById = new Map(all.map(row => [row.id, row]))
  const order = readOrder(sort.value)
  const ids = useStableOrder({
    view: JSON.stringify([shownSearch, isFiltered, sort.value, chosenName, overview !== undefined]),
    // The nodes of one network come as they are configured, unless they are sorted.
    found: (chosenName !== undefined && order.by === byNetwork ? found : sortRows(found, order)).map(({ id }) => id),
    known: new Set(rowsById.keys()),
  })
  const placed = ids.flatMap(id => rowsById.get(id) ?? [])
  const rows = order.by === byNetwork ? groupRows(placed) : placed
  const first = all.find(({ network }) => network.name === chosenName)
  const canDrainSeveral = rows.filter(({ node }) => node?.drained === false).length > 1
  return (
    <>
      <p class="lead">
        {chosenName !== undefined && !isSingle && (
          <>
            <PageLink to={withQuery({ network: '', node: '', search: '', sort: '' })}>{text.allNetworks}</PageLink>
            {' · '}
          </>
        )}
        {text.lead}
      </p>
      {(isLong || canDrainSeveral) && (
        <div class="controls">
          {isLong && (
            <SearchField
              label={text.search}
              value={search.value}
              onInput={value => changeQuery({ search: value, first: '' }, { isTyping: true })}
            />
          )}
          {isLong && chosenName === undefined && (
            <Segments
              label={text.filter}
              options={[
                { value: 'all', label: `${text.filters.all} (${formatNumber(all.length)})` },
                { value: 'problems', label: `${text.filters.problems} (${formatNumber(nodesWithProblems.length)})` },
              ]}
              value={isFiltered ? 'problems' : 'all'}
              onChange={value => changeQuery({ show: value === 'all' ? '' : value, first: '' })}
            />
          )}
          {canDrainSeveral && (
            <button type="button" class="quiet" onClick={() => (isDraining.value = true)}>
              {text.drainSeveral}
            </button>
          )}
        </div>
      )}
      {isDraining.value && <DrainNodes rows={rows} onChanged={onChanged} onClose={() => (isDraining.value = false)} />}
      {rows.length === 0 && <EmptyState icon="nodes" title={isFiltered && shownSearch === '' ? text.noProblems : texts.nothingFound} />}
      {first === undefined ? (
        <>
          {rows.length > 0 && (
            <NodeTable
              caption={operatorTexts.pages.nodes}
              rows={rows.slice(offset.value, offset.value + nodesPerPage)}
              hasNetworks
              onChanged={onChanged}
            />
          )}
          <Pager offset={offset} size={nodesPerPage} count={rows.length} />
        </>
      ) : (
        <NetworkDetails
          key={first.network.name}
          network={first.network}
          rows={rows}
          traffic={first.ofNetwork}
          seconds={overview?.seconds ?? 0}
          evidence={evidence.filter(({ network }) => network === first.network.name)}
          onChanged={onChanged}
        />
      )}
      {(first === undefined || isSingle) && unconfigured.length > 0 && <UnconfiguredNodes nodes={unconfigured} onChanged={onChanged} />}
    </>
  )
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
