import type { HeadsStatus } from '../services/chain-heads/index.ts'
import { allClasses, exclusionReasons, nodeReasons, textOfReason } from '../services/node-reasons.ts'
import { mergeProblems } from '../services/plugin-problems.ts'
import type { NetworkProblem, PluginProblem } from '../services/plugin-problems.ts'
import type { NodeError, NodeStatus } from '../services/node-status.ts'
import { isoTime } from '../util/dates.ts'

/** A network, with what is known of its chain; nothing before its upstreams are tracked. */
export type NetworkHeads = { readonly name: string } & Partial<HeadsStatus>

/**
 * How a network is for its callers, the first that holds: `down`: none of its own nodes is usable. `stalled`: nodes answer, and there is no
 * new block. `degraded`: some nodes that nobody has drained are not usable. `unknown`: nobody has looked lately, as no calls come in. `ok`: all others.
 */
export const networkStates = ['down', 'stalled', 'degraded', 'unknown', 'ok'] as const

export type NetworkState = (typeof networkStates)[number]

/** The states that are outages. */
export const networkOutages = {
  down: { severity: 'critical', text: 'no own node is usable' },
  stalled: { severity: 'critical', text: 'nodes answer, but there is no new block' },
} as const satisfies Partial<Record<NetworkState, object>>

/** How a node is for calls: `reduced` is usable, but not for all classes of methods, or for fewer calls. `unknown`: no gateway answers. */
export const nodeConditions = ['drained', 'notUsable', 'reduced', 'usable', 'unknown'] as const

export type NodeCondition = (typeof nodeConditions)[number]

/** One network in `/readyz?verbose`. */
export interface NetworkStatus extends Omit<NetworkHeads, 'upstreams'> {
  readonly state: NetworkState
  /** Its own nodes, without the partner. */
  readonly nodes: number
  readonly usableNodes: number
  readonly upstreams: readonly UpstreamStatus[]
  /** Of a network that is down: when the last of its own nodes became unusable. ISO 8601. Absent where that is not known of each of them. */
  readonly downSince?: string
  /** What its plugins report; absent where that is nothing. */
  readonly problems?: readonly NetworkProblem[]
}

export type UpstreamStatus = HeadsStatus['upstreams'][number] & {
  readonly condition: NodeCondition
  /** It answers in outages alone; its head is not tracked. */
  readonly partner?: true
  /** When it gets calls, as configured: its place in the order from 1 on, and its weight where nodes have weights. */
  readonly turn?: NonNullable<NodeStatus['turn']>
  /** Calls that wait for its response. */
  readonly inFlight?: number
  /** An operator has drained it: true once every process knows. */
  readonly drained?: boolean
  /** Of which classes of methods it gets no calls, or fewer than usual, and why; `all` stands for every class. */
  readonly reasons?: readonly {
    readonly class: string
    readonly reason: string
    readonly text: string
    /** It gets none of these calls, rather than fewer. */
    readonly keepsAway: boolean
    /** Since when it has been noticed each time that somebody looked. ISO 8601. */
    readonly since?: string
  }[]
  /** When each reason was noticed last, the newest first; those that have ended too. ISO 8601. */
  readonly lastReasons?: readonly { readonly class: string; readonly reason: string; readonly at: string }[]
  /** What attempts have failed with since the start of each process, the last one first. */
  readonly errors?: readonly (Omit<NodeError, 'at'> & { readonly lastSeen: string })[]
}

/** The heads of networks, what calls meet at their nodes in all workers, and what their plugins report. */
export const networkStatuses = (
  networks: readonly NetworkHeads[],
  nodes: readonly NodeStatus[],
  problems: readonly PluginProblem[] = [],
): readonly NetworkStatus[] =>
  networks.map(each => {
    const isOfNetwork = ({ network }: { readonly network: string }): boolean => network === each.name
    const found = mergeProblems(problems.filter(isOfNetwork))
    return { ...networkStatusOf(each, nodes.filter(isOfNetwork)), ...(found.length > 0 && { problems: found }) }
  })

const networkStatusOf = (network: NetworkHeads, nodes: readonly NodeStatus[]): NetworkStatus => {
  const describe = (upstream: HeadsStatus['upstreams'][number]) =>
    upstreamStatusOf(
      upstream,
      nodes.filter(each => each.upstream === upstream.name),
    )
  const tracked = network.upstreams ?? []
  const partners = new Set(nodes.flatMap(({ upstream, isPartner }) => (isPartner ? [upstream] : [])))
  const upstreams = [...tracked, ...Array.from(partners, name => ({ name, usable: true }))].map(describe)
  const own = upstreams.filter(({ partner }) => partner !== true)
  const counts = { nodes: own.length, usableNodes: own.filter(({ usable }) => usable).length }
  const state = networkStateOf(network, { usableNodes: counts.usableNodes, nodes: inServiceOf(own).length })
  const downSince = state === 'down' ? lastUnusableSince(own) : undefined
  return { ...network, state, ...counts, upstreams, ...(downSince !== undefined && { downSince }) }
}

/** Those that callers usually have: without drained ones, unless all are drained. */
export const inServiceOf = <Node extends Pick<UpstreamStatus, 'condition'>>(own: readonly Node[]): readonly Node[] => {
  const inService = own.filter(({ condition }) => condition !== 'drained')
  return inService.length === 0 ? own : inService
}

const lastUnusableSince = (nodes: readonly UpstreamStatus[]): string | undefined => {
  const times = nodes.flatMap(({ unusableSince }) => unusableSince ?? [])
  return times.length === nodes.length ? times.sort().at(-1) : undefined
}

const networkStateOf = (
  { head, stalled, idle }: NetworkHeads,
  { nodes, usableNodes }: Pick<NetworkStatus, 'nodes' | 'usableNodes'>,
): NetworkState => {
  if (nodes > 0 && usableNodes === 0) return 'down'
  if (stalled === true) return 'stalled'
  if (usableNodes < nodes) return 'degraded'
  return nodes === 0 || head === undefined || idle === true ? 'unknown' : 'ok'
}

/** Each process has states of its own. What keeps calls away in one process counts. Of exclusions `because` tells, for own nodes with the figures. */
const upstreamStatusOf = (upstream: HeadsStatus['upstreams'][number], reports: readonly NodeStatus[]): UpstreamStatus => {
  const restrictions = new Map(reports.flatMap(report => report.restrictions.map(each => [`${each.class} ${each.reason}`, each] as const)))
  const exclusion = exclusionReasons.find(reason => restrictions.has(`${allClasses} ${reason}`))
  const because = upstream.because ?? (exclusion && nodeReasons[exclusion].text)
  const last = newestRestrictions(reports)
  const sinceOf = (restriction: { readonly class: string; readonly reason: string }): number | undefined =>
    last.find(each => each.class === restriction.class && each.reason === restriction.reason)?.since
  const reasons = Array.from(restrictions.values(), each => {
    const since = sinceOf(each)
    const { keepsAway } = nodeReasons[each.reason]
    return { ...each, text: textOfReason(each.reason, each.class), keepsAway, ...(since !== undefined && { since: isoTime(since) }) }
  }).filter(({ reason }) => !exclusionReasons.some(each => each === reason))
  const lastReasons = last.map(({ class: methodClass, reason, at }) => ({ class: methodClass, reason, at: isoTime(at) }))
  const turn = reports.find(each => each.turn !== undefined)?.turn
  const errors = mergeErrors(reports).map(({ at, ...error }) => ({ ...error, lastSeen: isoTime(at) }))
  const usable = upstream.usable && reports.every(each => each.usable)
  const unusableSince = usable
    ? undefined
    : [upstream.unusableSince, ...reasons.filter(each => each.class === allClasses && each.keepsAway).map(({ since }) => since)]
        .filter(time => time !== undefined)
        .sort()[0]
  return {
    ...upstream,
    usable,
    condition: restrictions.has('all drained') ? 'drained' : !usable ? 'notUsable' : reasons.length > 0 ? 'reduced' : 'usable',
    ...(unusableSince !== undefined && { unusableSince }),
    ...(because !== undefined && { because }),
    ...(reports.some(({ isPartner }) => isPartner) && { partner: true as const }),
    ...(turn !== undefined && { turn }),
    ...(reports.length > 0 && { inFlight: reports.reduce((sum, { inFlight }) => sum + inFlight, 0) }),
    ...(restrictions.has('all drained') && { drained: reports.every(isDrained) }),
    ...(reasons.length > 0 && { reasons }),
    ...(lastReasons.length > 0 && { lastReasons }),
    ...(errors.length > 0 && { errors }),
  }
}

/** Of all processes, the newest first. */
const newestRestrictions = (reports: readonly NodeStatus[]): NodeStatus['lastRestrictions'] => {
  const newest = new Map<string, NodeStatus['lastRestrictions'][number]>()
  for (const each of reports.flatMap(({ lastRestrictions }) => lastRestrictions)) {
    const key = `${each.class} ${each.reason}`
    if (each.at > (newest.get(key)?.at ?? 0)) newest.set(key, each)
  }
  return [...newest.values()].sort((a, b) => b.at - a.at)
}

/** Of all processes, the last one first. */
const mergeErrors = (reports: readonly NodeStatus[]): readonly NodeError[] => {
  const merged = new Map<string, NodeError>()
  for (const each of reports.flatMap(({ errors }) => errors)) {
    const known = merged.get(each.error)
    const last = known !== undefined && known.at > each.at ? known : each
    merged.set(each.error, { ...last, count: each.count + (known?.count ?? 0) })
  }
  return [...merged.values()].sort((a, b) => b.at - a.at)
}

const isDrained = ({ restrictions }: NodeStatus): boolean => restrictions.some(({ reason }) => reason === 'drained')
