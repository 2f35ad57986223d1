import { networkOutages } from '../../server/network-status.ts'
import type { EvidenceSummary } from '../../services/evidence.ts'
import { allClasses } from '../../services/node-reasons.ts'
import { kindOfProblem } from '../../services/plugin-problems.ts'
import type { PluginProblemKind } from '../../services/plugin-problems.ts'
import { isoTime } from '../../util/dates.ts'
import { operatorReceivers } from '../alerts/operator-alerts.ts'
import { flag, listOf, object, text, textOrNull, time, count } from '../response-schemas.ts'
import { isAcknowledgeable } from '../operations/incident-operations.ts'
import { acknowledgmentOrNull, incidentSeverities } from '../operations/incident-schemas.ts'
import type { IncidentJson, IncidentSeverity } from '../operations/incident-schemas.ts'
import { nodesProperties } from '../operations/node-operations.ts'
import type { NodeJson, NodesJson } from '../operations/node-operations.ts'
import type { OperationServices } from '../operations/operation.ts'
import { noAlertReceivers } from '../state-labels.ts'
import type { AlertRule, GatewayProblem } from './gateway-health.ts'

type ListedNetwork = NodesJson['networks'][number]

/** What an operator should look at now: of the gateway, of a network, or of a node. */
export interface CurrentProblemJson extends Omit<IncidentJson, 'kind' | 'began' | 'ended' | 'times'> {
  readonly kind:
    | NodeJson['condition']
    | 'wrongResults'
    | 'down'
    | 'stalled'
    | 'notRedundant'
    | 'classUnusable'
    | 'noAlertReceivers'
    | 'alertsNotSent'
    | AlertRule
    | PluginProblemKind
  /** Of a network that is down: another problem is that, and is counted. */
  readonly partOfOutage: boolean
  readonly acknowledgeable: boolean
  readonly wrongResults: { readonly count: number; readonly proven: boolean; readonly time: string; readonly cause: string } | null
}

export interface CurrentProblemsJson {
  readonly problems: readonly CurrentProblemJson[]
  readonly nodesWithProblems: readonly { readonly network: string; readonly node: string | null }[]
}

/** Of the same moment. */
export type NodesAndProblemsJson = NodesJson & CurrentProblemsJson

const problems = {
  ...listOf(
    object({
      network: { ...textOrNull, description: 'Null: the gateway itself.' },
      node: { ...textOrNull, description: 'Null: the network, or the gateway.' },
      kind: {
        ...text,
        description:
          'A condition of the node, or `wrongResults`; of the network `down`, `stalled`, `notRedundant`, `classUnusable`, a plugin and its problem, or the name of an alert rule in deploy/prometheus/alerts.yaml; of the gateway such a name, or `noAlertReceivers` or `alertsNotSent`.',
      },
      class: { ...text, description: 'The class of methods that it is about; `all` for every class.' },
      severity: {
        type: 'string',
        enum: incidentSeverities,
        description: '`info`: as operators want it: the menu does not count it.',
      },
      text: { ...text, description: 'Why.' },
      partOfOutage: { ...flag, description: 'Of a network that is down: the problem `down` stands for it, and is counted.' },
      acknowledged: {
        ...acknowledgmentOrNull,
        description: 'Who looks after it; the last one who said so, once each critical incident and each node behind it is acknowledged.',
      },
      acknowledgeable: { ...flag, description: 'Whether `POST /overview/incidents/acknowledge` finds incidents behind it.' },
      wrongResults: {
        oneOf: [object({ count, proven: flag, time, cause: text }), { type: 'null' }],
        description: 'Of the node in the last 24 hours: how many, whether one of them is proven, and the last one.',
      },
    }),
  ),
  description:
    'Networks that are down first, each followed by all that is part of it; then critical ones, of the same severity nodes that get no calls; last those that are acknowledged.',
}

const nodesWithProblems = {
  ...listOf(object({ network: text, node: { ...textOrNull, description: 'Null: nobody has looked for nodes of the network yet.' } })),
  description:
    'The nodes with a problem above `info`; of a network with such a problem, but no such node, those that are not usable, else all. A drained node is one where its network is down.',
}

/** What the routes return, by the name in the OpenAPI document. */
export const problemSchemas = {
  Problems: object({ problems, nodesWithProblems }),
  NodesAndProblems: object({ ...nodesProperties, problems, nodesWithProblems }),
} as const

interface ObservedProblems {
  readonly networks: readonly ListedNetwork[]
  /** Alert rules that hold. */
  readonly alerts: readonly GatewayProblem[]
  /** Of the last day, the newest first. */
  readonly evidence: readonly EvidenceSummary[]
  readonly config: OperationServices['config']
  readonly incidents: readonly Pick<IncidentJson, 'network' | 'node' | 'kind' | 'severity' | 'ended' | 'acknowledged'>[]
}

/** All that Home lists, each problem once; and the nodes that the menu counts, and the filter of Nodes shows. */
export const describeProblems = (observed: ObservedProblems): CurrentProblemsJson => {
  const problems = listProblems(observed)
  return { problems, nodesWithProblems: observed.networks.flatMap(each => nodesOf(each, problems)) }
}

type FoundProblem = Omit<CurrentProblemJson, 'acknowledged' | 'acknowledgeable'>

const acknowledgmentOf = (
  problem: FoundProblem,
  { incidents, config }: ObservedProblems,
): Pick<CurrentProblemJson, 'acknowledged' | 'acknowledgeable'> => {
  const behind =
    config.listen.portal !== undefined && !problem.partOfOutage ? incidentsBehind(problem, incidents.filter(isAcknowledgeable)) : []
  const hasAcknowledged = (subject: string | null): boolean =>
    behind.some(({ node, acknowledged }) => node === subject && acknowledged !== null)
  const isAcknowledged = behind.every(
    ({ node, severity, acknowledged }) => acknowledged !== null || (severity !== 'critical' && hasAcknowledged(node)),
  )
  const [last = null] = behind.flatMap(({ acknowledged }) => acknowledged ?? []).toSorted((a, b) => (a.at < b.at ? 1 : -1))
  return { acknowledged: isAcknowledged ? last : null, acknowledgeable: behind.length > 0 }
}

/** Those of its node; of a network that of its kind, or else, as where redundancy is lost, those of its nodes, if any. */
const incidentsBehind = <Incident extends ObservedProblems['incidents'][number]>(
  { network, node, kind }: FoundProblem,
  incidents: readonly Incident[],
): readonly Incident[] => {
  const ofNetwork = incidents.filter(each => each.network === network)
  if (node !== null) return ofNetwork.filter(each => each.node === node)
  const ofKind = ofNetwork.filter(each => each.node === null && each.kind === kind)
  const ofNodes = ofNetwork.filter(each => each.node !== null)
  return [ofKind, ofNodes].find(({ length }) => length > 0) ?? ofNetwork
}

const nodesOf = (
  { name: network, upstreams }: ListedNetwork,
  problems: readonly CurrentProblemJson[],
): CurrentProblemsJson['nodesWithProblems'] => {
  const ofNetwork = problems.filter(each => each.network === network && each.severity !== 'info')
  if (ofNetwork.length === 0) return []
  const own = upstreams.filter(({ name }) => ofNetwork.some(({ node }) => node === name))
  const unusable = upstreams.filter(({ partner, usable, condition }) => !partner && usable === false && condition !== 'drained')
  const [found = upstreams] = [own, unusable].filter(({ length }) => length > 0)
  return found.length === 0 ? [{ network, node: null }] : found.map(({ name: node }) => ({ network, node }))
}

/** Networks that are down first, with all that is part of it; then critical ones, of the same severity nodes that get no calls; last those that somebody looks after. */
const listProblems = (observed: ObservedProblems): readonly CurrentProblemJson[] => {
  const problems = findProblems(observed).map(each => ({ ...each, ...acknowledgmentOf(each, observed) }))
  const outages = new Map(problems.filter(({ kind }) => kind === 'down').map(each => [each.network, each]))
  const rankOf = (problem: CurrentProblemJson): number => rankOfProblem((problem.partOfOutage && outages.get(problem.network)) || problem)
  return problems.toSorted((one, other) => rankOf(one) - rankOf(other))
}

const rankOfProblem = ({ acknowledged, severity, kind }: CurrentProblemJson): number => {
  const rank = incidentSeverities.indexOf(severity) - (kind === 'notUsable' || kind === 'down' ? 0.5 : 0)
  return acknowledged === null ? rank : rank + incidentSeverities.length
}

const findProblems = ({ networks, alerts, evidence, config }: ObservedProblems): readonly FoundProblem[] => {
  const alertsOf = (name: string | null) => alerts.filter(({ network }) => network === name).map(ofAlert)
  const names = new Set(networks.map(({ name }) => name))
  return [
    ...alerts.filter(({ network }) => network === null || !names.has(network)).map(ofAlert),
    ...networks.flatMap(network => {
      const ofNodes = network.upstreams.flatMap(node =>
        problemOfNode(
          network,
          node,
          evidence.filter(each => each.network === network.name && each.upstream === node.name),
        ),
      )
      const found = [...problemsOfNetwork(network), ...alertsOf(network.name), ...ofNodes]
      return found.map(each => ({ ...each, partOfOutage: network.state === 'down' && each.kind !== 'down' }))
    }),
    ...problemsOfAlerts(config),
  ]
}

const ofNothingElse = { node: null, class: allClasses, wrongResults: null, partOfOutage: false } as const

const ofAlert = ({ alert: kind, severity, text, network }: GatewayProblem): FoundProblem => ({
  ...{ ...ofNothingElse, network, kind, severity, text },
})

/** That operators are told of none of the others; who wants that has no receivers in `portal.operatorAlerts`, rather than no such option. */
const problemsOfAlerts = ({ listen, portal: { operatorAlerts } }: ObservedProblems['config']): readonly FoundProblem[] => {
  const ofGateway = { ...ofNothingElse, network: null }
  if (operatorAlerts === undefined) return [{ ...ofGateway, kind: 'noAlertReceivers', severity: 'warning', text: noAlertReceivers }]
  if (listen.portal !== undefined || operatorReceivers(operatorAlerts).length === 0) return []
  return [
    {
      ...{ ...ofGateway, kind: 'alertsNotSent', severity: 'warning' },
      text: 'the receivers of `portal.operatorAlerts` are told of nothing by this gateway, as it has no dashboard: set `listen.portal` in gateway.yaml',
    },
  ]
}

/** Beside what its nodes have. */
const problemsOfNetwork = (network: ListedNetwork): readonly FoundProblem[] => {
  const { name, state, nodes, usableNodes, problems, upstreams } = network
  const isByDrains = upstreams.every(({ partner, condition, usable }) => partner || usable !== false || condition === 'drained')
  const problem = (kind: CurrentProblemJson['kind'], severity: IncidentSeverity, text: string) => ({
    ...ofNothingElse,
    network: name,
    kind,
    severity,
    text,
  })
  return [
    ...classesDown(network).map(each => ({
      ...problem('classUnusable', 'critical', `no usable node for calls of the class ${each}`),
      class: each,
    })),
    ...problems.map(each => problem(kindOfProblem(each), each.severity, `${each.plugin}: ${each.text}`)),
    ...(state === 'down' || state === 'stalled' ? [problem(state, networkOutages[state].severity, networkOutages[state].text)] : []),
    ...(nodes > 1 && usableNodes === 1 ? [problem('notRedundant', isByDrains ? 'info' : 'warning', `1 of ${nodes} nodes is usable`)] : []),
  ]
}

/** Classes of methods of which none of the own nodes gets calls, although some are usable. */
const classesDown = ({ state, upstreams }: ListedNetwork): readonly string[] => {
  const usable = upstreams.filter(({ partner, usable }) => !partner && usable !== false)
  if (state === 'down' || usable.length === 0) return []
  const isKeptFrom = (each: string, { reasons }: NodeJson): boolean => reasons.some(({ class: of, keepsAway }) => keepsAway && of === each)
  const classes = new Set(usable.flatMap(({ reasons }) => reasons.map(each => each.class)))
  return [...classes].filter(each => each !== allClasses && usable.every(node => isKeptFrom(each, node)))
}

/** It gets no calls, or fewer than usual, or was wrong. */
const problemOfNode = (
  { name: network, state }: ListedNetwork,
  { name: node, condition, because, reasons }: NodeJson,
  evidence: readonly EvidenceSummary[],
): readonly FoundProblem[] => {
  const isWorking = condition === 'usable' || condition === 'unknown'
  const [last] = evidence
  if (isWorking && last === undefined) return []
  const proven = evidence.some(({ isProven }) => isProven)
  const why = [...(because === null ? [] : [because]), ...reasons.map(each => each.text)]
  return [
    {
      network,
      node,
      kind: isWorking ? 'wrongResults' : condition,
      class: allClasses,
      severity: state === 'down' || proven ? 'critical' : condition === 'drained' ? 'info' : 'warning',
      text: why.join('; ') || (last?.cause ?? ''),
      partOfOutage: false,
      wrongResults: last === undefined ? null : { count: evidence.length, proven, time: isoTime(last.time), cause: last.cause },
    },
  ]
}
