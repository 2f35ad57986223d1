import { networkOutages } from '../../server/network-status.ts'
import type { NetworkStatus, UpstreamStatus } from '../../server/network-status.ts'
import type { Clock } from '../../services/clock.ts'
import { allClasses, exclusionReasons, nodeReasons, textOfReason } from '../../services/node-reasons.ts'
import type { NodeReason } from '../../services/node-reasons.ts'
import { kindOfProblem } from '../../services/plugin-problems.ts'
import { dayMs, isoTime, isoTimeOrNull } from '../../util/dates.ts'
import type { IncidentJson, IncidentSeverity, IncidentsJson } from '../operations/incident-schemas.ts'
import type { GatewayProblem } from './gateway-health.ts'

/** Something that kept calls from a node, or from all nodes of a network, for some time; that a plugin has reported; or a problem of the gateway, such as an outage of the store. */
interface NodeIncident {
  /** Undefined: the gateway. */
  readonly network: string | undefined
  /** Undefined: the network, or the gateway. */
  readonly node: string | undefined
  /** A state of the network, a condition of the node, or a reason of one; a plugin and its problem, such as `verify beacon-behind`; that of a problem of the gateway. */
  readonly kind: string
  /** Of methods; `all` for every class. */
  readonly class: string
  readonly text: string
  readonly severity: IncidentSeverity
  /** In ms since 1970. */
  readonly began: number
  /** Undefined while it lasts. */
  readonly ended: number | undefined
  /** How often it was there: what comes back soon is one incident. */
  readonly times: number
}

type Observed = Pick<NodeIncident, 'network' | 'node' | 'kind' | 'class' | 'text' | 'severity'> & { readonly since: number | undefined }

export const incidentRetentionMs = dayMs
/** What comes back within this time has not been over. */
const sameIncidentMs = 60_000
export const maxIncidents = 500

/** A node in order has these now and then. */
const usualReasons: ReadonlySet<string> = new Set(['recovering', 'rateSpent'])

export interface NodeIncidentsOptions {
  readonly clock: Clock
  /** As they were observed last: no node is asked for it, so that networks without calls stay quiet. */
  observedNetworks(): Promise<readonly NetworkStatus[]>
}

/** What nodes, networks and the gateway had in the last day, in the memory of the process that serves operators. */
export class NodeIncidents {
  readonly intervalMs = 5_000
  readonly #options: NodeIncidentsOptions
  /** In the order in which they were noticed first. */
  #incidents = new Map<string, NodeIncident>()
  #count = 0
  /** The id of the last incident of each kind. */
  readonly #lastIds = new Map<string, string>()
  #networks: readonly NetworkStatus[] = []
  #gateway: readonly Observed[] = []
  #down: readonly string[] = []
  #downListener: ((networks: readonly string[]) => void) | undefined

  constructor(options: NodeIncidentsOptions) {
    this.#options = options
  }

  async record(): Promise<void> {
    this.recordStates(await this.#options.observedNetworks())
  }

  /** Whoever shows the states of networks, or problems of the gateway, records what they show: so these and incidents agree. */
  recordStates(networks: readonly NetworkStatus[]): void {
    this.#networks = networks
    this.#update()
    const down = networks.filter(({ state }) => state === 'down').map(({ name }) => name)
    if (down.join() === this.#down.join()) return
    this.#down = down
    this.#downListener?.(down)
  }

  /** Calls it with the names of the networks that have no usable node, now and whenever these become others. */
  onNetworksDown(listener: (networks: readonly string[]) => void): void {
    this.#downListener = listener
    listener(this.#down)
  }

  /** Those of its networks are told by their nodes. */
  recordGateway(problems: readonly GatewayProblem[]): void {
    this.#gateway = problems
      .filter(({ network }) => network === null)
      .map(({ incident: kind, text, severity }) => ({ ...ofGateway, kind, text, severity }))
    this.#update()
  }

  #update(): void {
    const networks = this.#networks
    const observed = new Map([...this.#gateway, ...networks.flatMap(observe)].map(each => [keyOf(each), each]))
    const now = this.#options.clock.now()
    for (const [id, incident] of this.#incidents)
      if (incident.ended === undefined && !observed.has(keyOf(incident))) this.#incidents.set(id, { ...incident, ended: now })
    for (const [key, each] of observed) this.#recordObserved(key, each, now)
    for (const each of networks.flatMap(observePast)) this.#recordPast(each, observed, now)
    this.#drop(now)
  }

  /** What lasts comes first, then the newest. */
  list(network?: string): readonly NodeIncident[] {
    const orderOf = ({ ended = Infinity }: NodeIncident): number => ended
    return [...this.#incidents.values()]
      .filter(each => network === undefined || each.network === network)
      .sort((a, b) => (orderOf(a) === orderOf(b) ? b.began - a.began : orderOf(b) - orderOf(a)))
  }

  /** Acknowledgments are in the store. */
  read(network?: string): Pick<IncidentsJson, 'since'> & { readonly incidents: readonly Omit<IncidentJson, 'acknowledged'>[] } {
    return {
      since: isoTime(this.#options.clock.now() - incidentRetentionMs),
      incidents: this.list(network).map(({ network = null, node = null, began, ended, ...each }) => ({
        ...each,
        network,
        node,
        began: isoTime(began),
        ended: isoTimeOrNull(ended),
      })),
    }
  }

  #recordObserved(key: string, { since, ...observed }: Observed, now: number): void {
    const lastId = this.#lastIds.get(key) ?? ''
    const last = this.#incidents.get(lastId)
    if (last !== undefined && (last.ended === undefined || now - last.ended < sameIncidentMs)) {
      const times = last.times + (last.ended === undefined ? 0 : 1)
      this.#incidents.set(lastId, { ...last, ...observed, ended: undefined, times })
      return
    }
    const id = String((this.#count += 1))
    this.#lastIds.set(key, id)
    this.#incidents.set(id, { ...observed, began: Math.min(since ?? now, now), ended: undefined, times: 1 })
  }

  /** What began and ended between two looks. */
  #recordPast({ at, ...past }: PastReason, observed: ReadonlyMap<string, Observed>, now: number): void {
    const key = keyOf(past)
    const last = this.#incidents.get(this.#lastIds.get(key) ?? '')
    if (observed.has(key) || at <= now - incidentRetentionMs || (last !== undefined && at <= (last.ended ?? now))) return
    this.#recordObserved(key, { ...past, since: at }, at)
    const id = this.#lastIds.get(key) ?? ''
    const recorded = this.#incidents.get(id)
    if (recorded !== undefined) this.#incidents.set(id, { ...recorded, ended: at })
  }

  #drop(now: number): void {
    const isKept = ({ ended = now }: NodeIncident): boolean => ended > now - incidentRetentionMs
    const kept = [...this.#incidents].filter(([, each]) => isKept(each))
    this.#incidents = new Map(kept.slice(-maxIncidents))
    for (const [key, id] of this.#lastIds) if (!this.#incidents.has(id)) this.#lastIds.delete(key)
  }
}

const keyOf = ({ network, node, kind, class: methodClass }: Pick<Observed, 'network' | 'node' | 'kind' | 'class'>): string =>
  [network, node, kind, methodClass].join('\n')

const ofGateway = { network: undefined, node: undefined, class: allClasses, since: undefined } as const

const observe = ({ name: network, state, lastHead, downSince, upstreams, problems = [] }: NetworkStatus): readonly Observed[] => {
  const since = parseTime(state === 'stalled' ? lastHead?.since : downSince)
  return [
    ...(state === 'down' || state === 'stalled'
      ? [{ network, node: undefined, kind: state, class: allClasses, ...networkOutages[state], since }]
      : []),
    ...problems.map(each => ({
      ...{ network, node: undefined, kind: kindOfProblem(each), class: allClasses },
      ...{ text: each.text, severity: each.severity, since: parseTime(each.since) },
    })),
    ...upstreams.flatMap(each => observeNode(network, each)),
  ]
}

const observeNode = (
  network: string,
  { name: node, condition, because, unusableSince, reasons = [] }: UpstreamStatus,
): readonly Observed[] => {
  const isUnusable = condition === 'notUsable' && because !== undefined
  const cause = isUnusable ? [{ kind: condition, class: allClasses, text: because, since: parseTime(unusableSince) }] : []
  const held = reasons
    .filter(({ reason }) => !usualReasons.has(reason))
    .map(({ reason: kind, class: methodClass, text, since }) => ({ kind, class: methodClass, text, since: parseTime(since) }))
  return [...cause, ...held].map(each => ({ network, node, severity: severityOf(each.kind), ...each }))
}

const isReason = (kind: string): kind is NodeReason => Object.hasOwn(nodeReasons, kind)

/** Of a node alone: calls go to others. */
const severityOf = (kind: string): IncidentSeverity => {
  if (kind === 'lied') return 'critical'
  return kind === 'drained' || (isReason(kind) && !nodeReasons[kind].keepsAway) ? 'info' : 'warning'
}

/** A reason that a node had, in ms since 1970 when it was noticed last. */
type PastReason = Omit<Observed, 'since'> & { readonly at: number }

/** Without what is told by the condition of the node. */
const isShown = (reason: string): reason is NodeReason =>
  isReason(reason) && !usualReasons.has(reason) && !exclusionReasons.some(each => each === reason)

const observePast = ({ name: network, upstreams }: NetworkStatus): readonly PastReason[] =>
  upstreams.flatMap(({ name: node, lastReasons = [] }) =>
    lastReasons.flatMap(({ class: methodClass, reason, at }) =>
      isShown(reason)
        ? [
            {
              ...{ network, node, kind: reason, class: methodClass, text: textOfReason(reason, methodClass) },
              ...{ severity: severityOf(reason), at: Date.parse(at) },
            },
          ]
        : [],
    ),
  )

const parseTime = (iso: string | undefined): number | undefined => (iso === undefined ? undefined : Date.parse(iso))
