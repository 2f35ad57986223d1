import { useSignal } from '@preact/signals'
import type { OverviewJson } from '../../operator/overview-routes.ts'
import type { NodeJson, NodesJson } from '../../operations/node-operations.ts'
import { Notice, WhenLoaded } from '../components/controls.tsx'
import { useSubmit } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.nodes

type NetworkNodes = NodesJson['networks'][number]
type NetworkTraffic = OverviewJson['networks'][number]

const formatMs = (value: number | null = null): string => (value === null ? '–' : value.toFixed(value < 10 ? 1 : 0))

/** What calls meet, network by network. */
export const Nodes = () => {
  const nodes = useRequest<NodesJson>('/nodes')
  const traffic = useRequest<OverviewJson>('/overview')
  const { seconds, networks = [] } = traffic.data.value ?? {}
  return (
    <WhenLoaded from={nodes}>
      {loaded => (
        <>
          {seconds !== undefined && (
            <p>
              {text.since} {formatSeconds(seconds)}.
            </p>
          )}
          {loaded.networks.map(network => (
            <Network
              key={network.name}
              network={network}
              traffic={networks.find(({ name }) => name === network.name)}
              onChanged={nodes.reload}
            />
          ))}
        </>
      )}
    </WhenLoaded>
  )
}

const formatSeconds = (seconds: number): string =>
  seconds < 120 ? `${Math.round(seconds)} s` : `${formatNumber(Math.round(seconds / 60))} min`

interface NetworkProps {
  readonly network: NetworkNodes
  readonly traffic: NetworkTraffic | undefined
  onChanged(): void
}

const Network = ({ network: { name, head, finalized, upstreams }, traffic, onChanged }: NetworkProps) => {
  const trafficOf = (node: string) => traffic?.upstreams.find(each => each.name === node)
  return (
    <>
      <h2>{name}</h2>
      <p>
        {text.head} {formatNumber(head)}, {text.finalized} {formatNumber(finalized)}, {texts.calls} {formatNumber(traffic?.calls ?? null)}
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
            { title: text.share, isNumber: true, cell: upstream => formatShare(trafficOf(upstream.name)?.share) },
            { title: text.requests, isNumber: true, cell: upstream => formatNumber(trafficOf(upstream.name)?.requests ?? null) },
            { title: text.failures, isNumber: true, cell: upstream => formatNumber(trafficOf(upstream.name)?.failures ?? null) },
            { title: text.median, isNumber: true, cell: upstream => formatMs(trafficOf(upstream.name)?.p50Ms) },
            { title: text.p99, isNumber: true, cell: upstream => formatMs(trafficOf(upstream.name)?.p99Ms) },
            { title: text.inFlight, isNumber: true, cell: upstream => formatNumber(upstream.inFlight) },
            { title: text.actions, cell: upstream => <DrainNode network={name} node={upstream} onChanged={onChanged} /> },
          ]}
        />
      )}
    </>
  )
}

const formatShare = (share: number | null = null): string => (share === null ? '–' : `${(100 * share).toFixed(1)} %`)

interface DrainProps {
  readonly network: string
  readonly node: NodeJson
  onChanged(): void
}

/** The last node of a network is asked about. */
const DrainNode = ({ network, node: { name, drained }, onChanged }: DrainProps) => {
  const isLast = useSignal(false)
  const { error, isSending, submit } = useSubmit(async () => {
    const body = isLast.value ? { force: true } : {}
    await request(
      'POST',
      `/nodes/${encodeURIComponent(network)}/${encodeURIComponent(name)}/${drained ? 'undrain' : 'drain'}`,
      drained ? undefined : body,
    )
    isLast.value = false
    onChanged()
  })
  if (error.value?.code === 'last-node') isLast.value = true
  const label = drained ? text.undrain : isLast.value ? text.drainLast : text.drain
  return (
    <form onSubmit={submit}>
      <Notice text={error.value?.message} />
      <button type="submit" class={isLast.value ? 'danger' : 'quiet'} disabled={isSending.value} aria-label={`${label} ${name}`}>
        {label}
      </button>
    </form>
  )
}

interface StateProps {
  readonly upstream: NodeJson
}

/** Whether calls reach the node, and all that keeps calls away. */
const State = ({ upstream: { usable, drained, because, reasons } }: StateProps) => (
  <>
    {drained ? text.drained : usable === false ? text.notUsable : text.usable}
    {because !== null && <p class="error">{because}</p>}
    {reasons.map(({ class: methodClass, reason, text: rule }) => (
      <p key={`${methodClass} ${reason}`} class="help">
        {methodClass === 'all' ? text.allClasses : methodClass}: {rule}
      </p>
    ))}
  </>
)
