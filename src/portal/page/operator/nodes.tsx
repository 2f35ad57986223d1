import { Notice } from '../components/controls.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
import { texts } from '../texts.ts'
import { useRequest } from '../use-request.ts'
import type { Nodes as NodesReport, Upstream } from './operator-responses.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.nodes

const numberOr = (value: number | null): string => (value === null ? '–' : formatNumber(value))

const millisecondsOr = (value: number | null): string => (value === null ? '–' : value.toFixed(value < 10 ? 1 : 0))

/** What calls meet, network by network. */
export const Nodes = () => {
  const nodes = useRequest<NodesReport>('/nodes')
  const found = nodes.data.value
  return (
    <>
      <Notice text={nodes.error.value} />
      {found === undefined ? (
        nodes.error.value === undefined && <p>{texts.loading}</p>
      ) : (
        <>
          <p>
            {text.since} {formatSeconds(found.seconds)}.
          </p>
          {found.networks.map(network => (
            <Network key={network.name} network={network} />
          ))}
        </>
      )}
    </>
  )
}

const formatSeconds = (seconds: number): string =>
  seconds < 120 ? `${Math.round(seconds)} s` : `${formatNumber(Math.round(seconds / 60))} min`

const Network = ({ network: { name, head, finalized, calls, upstreams } }: { readonly network: NodesReport['networks'][number] }) => (
  <>
    <h2>{name}</h2>
    <p>
      {text.head} {numberOr(head)}, {text.finalized} {numberOr(finalized)}, {texts.calls} {formatNumber(calls)}
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
          { title: text.head, isNumber: true, cell: upstream => numberOr(upstream.head) },
          { title: text.lag, isNumber: true, cell: upstream => numberOr(upstream.lagBlocks) },
          { title: text.share, isNumber: true, cell: ({ share }) => (share === null ? '–' : `${(100 * share).toFixed(1)} %`) },
          { title: text.requests, isNumber: true, cell: upstream => formatNumber(upstream.requests) },
          { title: text.failures, isNumber: true, cell: upstream => formatNumber(upstream.failures) },
          { title: text.median, isNumber: true, cell: upstream => millisecondsOr(upstream.p50Ms) },
          { title: text.p99, isNumber: true, cell: upstream => millisecondsOr(upstream.p99Ms) },
          { title: text.inFlight, isNumber: true, cell: upstream => numberOr(upstream.inFlight) },
        ]}
      />
    )}
  </>
)

/** Whether calls reach the node, and all that keeps calls away. */
const State = ({ upstream: { usable, because, openBreakers, rateLimited, rateSpent, fewerCalls } }: { readonly upstream: Upstream }) => (
  <>
    {usable ? text.usable : text.notUsable}
    {because !== null && <p class="error">{because}</p>}
    {openBreakers.length > 0 && (
      <p class="error">
        {text.breaker}: {openBreakers.map(each => (each === 'all' ? text.allClasses : each)).join(', ')}
      </p>
    )}
    {rateLimited && <p class="error">{text.rateLimited}</p>}
    {rateSpent && <p class="help">{text.rateSpent}</p>}
    {fewerCalls.map(({ class: methodClass, reason, rule }) => (
      <p key={`${methodClass} ${reason}`} class="help">
        {text.fewerCalls} ({methodClass}, {reason}): {rule}
      </p>
    ))}
  </>
)
