import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import { allClasses } from '../../../services/node-reasons.ts'
import type { NodeJson, NodesJson } from '../../operations/node-operations.ts'
import type { OverviewJson } from '../../operator/overview-routes.ts'
import type { CurrentProblemJson, NodesAndProblemsJson } from '../../operator/problems.ts'
import { now } from '../clock.ts'
import type { Tone } from '../components/badge.tsx'
import { TextWithCode } from '../components/text-with-code.tsx'
import { formatAgeSince, formatAuthor, formatLatency, formatMoment, formatNumber } from '../format.ts'
import type { Loaded } from '../request.ts'
import { texts } from '../texts.ts'
import { formatShare, toneOfFailures } from './format-figures.ts'
import { ErrorsLink, RequestLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.nodes

export type NetworkNodes = NodesJson['networks'][number]

/** The nodes of now, and what needs somebody, which the menu counts, Home lists, and Nodes filters by: they are read once. */
export const NodesNow = createContext<Loaded<NodesAndProblemsJson> | undefined>(undefined)

export const useNodes = (): Loaded<NodesAndProblemsJson> => {
  const nodes = useContext(NodesNow)
  if (nodes === undefined) throw new Error('the page stands outside of NodesNow')
  return nodes
}

/** Those of networks and nodes, which Nodes shows; the others are those of the gateway. */
export const areOfNodes = ({ network }: CurrentProblemJson): boolean => network !== null

/** It gets no calls, or fewer than usual. */
export const needsAttention = ({ condition }: NodeJson): boolean => condition !== 'usable' && condition !== 'unknown'

const tones: Readonly<Record<NodeJson['condition'], Tone>> = {
  drained: 'neutral',
  notUsable: 'danger',
  reduced: 'warn',
  usable: 'ok',
  unknown: 'neutral',
}

export const toneOfNode = ({ condition }: NodeJson): Tone => tones[condition]

/** The greater, the less it matters now. */
export const rankOfNetwork = ({ state, upstreams }: NetworkNodes): number => {
  if (state === 'down') return 0
  if (state === 'stalled') return 1
  if (upstreams.some(({ condition }) => condition === 'notUsable')) return 2
  if (state === 'degraded' || upstreams.some(needsAttention)) return 3
  return 4
}

/** Whose problem matters most, first; else by name. */
export const byProblem = (one: NetworkNodes, other: NetworkNodes): number =>
  rankOfNetwork(one) - rankOfNetwork(other) || (one.name < other.name ? -1 : 1)

export const isDrained = ({ drained }: NodeJson): boolean => drained

/** What becomes of calls that no own node gets, once `taken` are drained too. */
export const fateOfCalls = ({ name, upstreams }: NetworkNodes, taken: readonly NodeJson[] = []): string => {
  const partner = upstreams.find(each => each.partner)
  if (partner === undefined) return `${text.callsFail}: ${text.noPartner} ${name}`
  if (partner.drained || taken.includes(partner)) return `${text.callsFail}: ${text.partnerDrained}`
  return partner.usable === false ? `${text.callsFail}: ${text.partnerUnusable}` : text.callsToPartner
}

export const nameClass = (methodClass: string): string => (methodClass === allClasses ? text.allClasses : `${methodClass} ${text.ofClass}`)

/** All that keeps calls away, in words; that it is drained is said by its state, and is no error: an operator wants it. */
export const NodeWhy = ({ node: { condition, because, reasons } }: { readonly node: NodeJson }) => (
  <>
    {because !== null && <p class={condition === 'drained' ? 'help sentence' : 'error sentence'}>{because}</p>}
    {reasons
      .filter(({ reason }) => reason !== 'drained')
      .map(({ class: methodClass, reason, text: rule, keepsAway }) => (
        <p key={`${methodClass} ${reason}`} class={keepsAway && condition !== 'drained' ? 'error sentence' : 'help sentence'}>
          <TextWithCode text={methodClass === allClasses ? rule : `${nameClass(methodClass)}: ${rule}`} />
        </p>
      ))}
  </>
)

/** So long a failure may be the reason of what is now. */
const maxFailureAgeMs = 3_600_000

/** What an attempt has failed with last, and its request: in the log, and on Requests where its account has it logged. */
export const LastFailure = ({ node: { errors } }: { readonly node: NodeJson }) => {
  const [last] = errors
  if (last === undefined || now.value - Date.parse(last.lastSeen) > maxFailureAgeMs) return null
  return (
    <p class="help">
      {text.lastFailure} {last.error}, {last.method}, {formatMoment(last.lastSeen, now.value)}: <RequestLink id={last.requestId} />
    </p>
  )
}

/** Since when it is as it is, and when it answered last. */
export const NodeTimes = ({
  node: { condition, drainedSince, drainedBy, drainReason, drainedUntil, unusableSince, reasons, lastHead },
}: {
  readonly node: NodeJson
}) => {
  const since = drainedSince ?? unusableSince ?? reasons[0]?.since ?? null
  const parts = [
    ...(since === null ? [] : [`${text.for} ${formatAgeSince(since, now.value)} (${text.since} ${formatMoment(since, now.value)})`]),
    ...(drainedBy === null ? [] : [`${text.by} ${formatAuthor(drainedBy)}`]),
    ...(drainReason === null ? [] : [`${text.reason.toLowerCase()}: ${drainReason}`]),
    ...(drainedUntil === null ? [] : [`${text.until} ${formatMoment(drainedUntil, now.value)}`]),
    ...(condition === 'notUsable' && lastHead !== null ? [`${text.lastAnswer} ${formatMoment(lastHead.checkedAt, now.value)}`] : []),
  ]
  return parts.length === 0 ? null : <p class="help sentence">{parts.join('; ')}</p>
}

export type NetworkTraffic = OverviewJson['networks'][number]

/** That of a network which is down is from before. */
export const formatLatencyOf = ({ state }: NetworkNodes, ms: number | null | undefined): string =>
  formatLatency(state === 'down' ? null : ms)

/** Of an outage: calls have failed since then, by the nodes rather than by when their calls were counted first. */
export const startOfOutage = ({ downSince }: NetworkNodes, outage: NonNullable<NetworkTraffic['outage']>): string =>
  formatMoment(downSince ?? outage.since, now.value)

interface FailedShareProps {
  readonly network: NetworkNodes
  readonly traffic: NetworkTraffic | undefined
}

/** A link to what has failed, where something has. */
export const FailedShare = ({ network, traffic }: FailedShareProps) => {
  if (traffic === undefined) return <>{formatShare(null)}</>
  const { outage } = traffic
  const { calls, failedCalls } = outage ?? traffic
  const share = formatShare(calls > 0 ? failedCalls / calls : null)
  if (failedCalls === 0) return <span>{share}</span>
  return (
    <span class={outage !== null || toneOfFailures(traffic) === 'danger' ? 'error' : undefined}>
      <ErrorsLink network={network.name}>
        <span class="one-line">{share}</span>
      </ErrorsLink>
      {outage !== null && (
        <>
          {' '}
          <span class="since one-line">{`${texts.of} ${formatNumber(calls)} ${text.since} ${startOfOutage(network, outage)}`}</span>
        </>
      )}
    </span>
  )
}
