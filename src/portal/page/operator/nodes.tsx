import type { NodesReport } from '../../operator/operator-nodes.ts'
import { WhenLoaded } from '../components/controls.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.nodes

type NetworkReport = NodesReport['networks'][number]

const formatMs = (value: number | null): string => (value === null ? '–' : value.toFixed(value < 10 ? 1 : 0))

/** What calls meet, network by network. */
export const Nodes = () => {
  const nodes = useRequest<NodesReport>('/nodes')
  return (
    <WhenLoaded from={nodes}>
      {({ seconds, networks }) => (
        <>
          <p>
            {text.since} {formatSeconds(seconds)}.
          </p>
          {networks.map(network => (
            <Network key={network.name} network={network} />
          ))}
        </>
      )}
    </WhenLoaded>
  )
}

const formatSeconds = (seconds: number): string =>
  seconds < 120 ? `${Math.round(seconds)} s` : `${formatNumber(Math.round(seconds / 60))} min`

const Network = ({ network: { name, head, finalized, calls, upstreams } }: { readonly network: NetworkReport }) => (
  <>
    <h2>{name}</h2>
    <p>
      {text.head} {formatNumber(head)}, {text.finalized} {formatNumber(finalized)}, {texts.calls} {formatNumber(calls)}
    </p>
    {upstreams.length === 0 ? (
      <p>{text.none}</p>
    ) : (
      <Table
        caption={`${operatorTexts.pages.nodes} ${name}`}
        keyOf={upstream => upstream.name}
        rows={upstreams}
        columns={[
          { title: text.upstream, cell: upstream => upstream.name },
          { title: text.state, cell: upstream => <State upstream={upstream} /> },
          { title: text.head, isNumber: true, cell: upstream => formatNumber(upstream.head) },
          { title: text.lag, isNumber: true, cell: upstream => formatNumber(upstream.lagBlocks) },
          { title: text.share, isNumber: true, cell: ({ share }) => (share === null ? '–' : `${(100 * share).toFixed(1)} %`) },
          { title: text.requests, isNumber: true, cell: upstream => formatNumber(upstream.requests) },
          { title: text.failures, isNumber: true, cell: upstream => formatNumber(upstream.failures) },
          { title: text.median, isNumber: true, cell: upstream => formatMs(upstream.p50Ms) },
          { title: text.p99, isNumber: true, cell: upstream => formatMs(upstream.p99Ms) },
          { title: text.inFlight, isNumber: true, cell: upstream => formatNumber(upstream.inFlight) },
        ]}
      />
    )}
  </>
)

interface StateProps {
  readonly upstream: NetworkReport['upstreams'][number]
}

/** Whether calls reach the node, and all that keeps calls away. */
const State = ({ upstream: { usable, because, reasons } }: StateProps) => (
  <>
    {usable ? text.usable : text.notUsable}
    {because !== null && <p class="error">{because}</p>}
    {reasons.map(({ class: methodClass, reason, text: rule }) => (
      <p key={`${methodClass} ${reason}`} class="help">
        {methodClass === 'all' ? text.allClasses : methodClass}: {rule}
      </p>
    ))}
  </>
)
