import type { EvidenceSummaryJson } from '../../operations/evidence-operations.ts'
import type { NodeJson } from '../../operations/node-operations.ts'
import type { CurrentProblemJson, NodesAndProblemsJson } from '../../operator/problems.ts'
import type { OverviewJson } from '../../operator/overview-routes.ts'
import { networkStateLabels, nodeConditionLabels } from '../../state-labels.ts'
import { byProblem, rankOfNetwork } from './node-state.tsx'
import type { NetworkNodes, NetworkTraffic } from './node-state.tsx'
import { operatorTexts } from './operator-texts.ts'

type NodeTraffic = NetworkTraffic['upstreams'][number]

/** A node with all that the page knows of it. */
export interface NodeRow {
  readonly id: string
  readonly network: NetworkNodes
  /** Undefined for a network whose nodes nobody has looked for yet. */
  readonly node: NodeJson | undefined
  readonly traffic: NodeTraffic | undefined
  readonly ofNetwork: NetworkTraffic | undefined
  /** The newest first. */
  readonly evidence: readonly EvidenceSummaryJson[]
  readonly hasProblem: boolean
  /** The network, or any of its nodes, has one. */
  readonly isOfNetworkWithProblem: boolean
}

interface KnownOfNodes {
  readonly networks: readonly NetworkNodes[]
  readonly overview: OverviewJson | undefined
  readonly evidence: readonly EvidenceSummaryJson[]
  readonly problems: readonly CurrentProblemJson[]
  readonly nodesWithProblems: NodesAndProblemsJson['nodesWithProblems']
}

export const nodeRows = ({ networks, overview, evidence, problems, nodesWithProblems }: KnownOfNodes): readonly NodeRow[] => {
  const traffics = new Map(overview?.networks.map(each => [each.name, each]))
  const idsWithProblems = new Set(nodesWithProblems.map(({ network, node }) => idOf(network, node ?? undefined)))
  const withProblems = new Set(problems.map(({ network }) => network))
  return networks.flatMap(network => {
    const ofNetwork = traffics.get(network.name)
    const wrong = evidence.filter(each => each.network === network.name)
    const nodes: readonly (NodeJson | undefined)[] = network.upstreams.length === 0 ? [undefined] : network.upstreams
    return nodes.map((node): NodeRow => {
      const traffic = ofNetwork?.upstreams.find(({ name }) => name === node?.name)
      return {
        id: idOf(network.name, node?.name),
        network,
        node,
        traffic,
        ofNetwork,
        evidence: wrong.filter(each => each.node === node?.name),
        hasProblem: idsWithProblems.has(idOf(network.name, node?.name)),
        isOfNetworkWithProblem: withProblems.has(network.name),
      }
    })
  })
}

const idOf = (network: string, node = ''): string => `${network}/${node}`

/** Each word stands in the name of the network or node, or in the state of one of them. */
export const matches = ({ network, node }: NodeRow, search: string): boolean => {
  const states = [networkStateLabels[network.state], ...(node === undefined ? [] : [nodeConditionLabels[node.condition]])]
  const names = [network.name, node?.name, node?.partner ? operatorTexts.nodes.partner : '']
  const text = [...names, ...states].join('\n').toLowerCase()
  return search
    .toLowerCase()
    .split(/\s+/)
    .every(word => text.includes(word))
}

const conditionRanks: readonly NodeJson['condition'][] = ['notUsable', 'reduced', 'drained', 'unknown', 'usable']

/** What the rows can be sorted by: numbers, or texts. */
const sortValues = {
  node: ({ node }) => node?.name,
  state: ({ node }) => node && conditionRanks.indexOf(node.condition),
  lag: ({ node }) => node?.lagBlocks,
  attempts: ({ traffic }) => traffic?.requests,
  share: ({ traffic }) => traffic?.share,
  failures: ({ traffic }) => traffic?.failures,
  p50: ({ traffic }) => traffic?.p50Ms,
  p95: ({ traffic }) => traffic?.p95Ms,
  inFlight: ({ node }) => node?.inFlight,
} as const satisfies Readonly<Record<string, (row: NodeRow) => string | number | null | undefined>>

type NodeSort = keyof typeof sortValues

/** Networks with problems come first, each with its nodes as they are configured. */
export const byNetwork = 'network'

const ascendingFirst: readonly string[] = ['node', 'state', byNetwork]

const isSort = (name: string): name is NodeSort => Object.hasOwn(sortValues, name)

/** An order in the address: `p95`, or `-p95` for the greatest first; by network unless it is one of these. */
export const readOrder = (text: string): { readonly by: NodeSort | typeof byNetwork; readonly isDescending: boolean } => {
  const by = text.replace(/^-/, '')
  return isSort(by) ? { by, isDescending: text.startsWith('-') } : { by: byNetwork, isDescending: false }
}

/** The address of what a click on the title of a column leads to: what matters most comes first, and then the other way round. */
export const nextOrder = (text: string, column: string): string => {
  const [first, second] = ascendingFirst.includes(column) ? [column, `-${column}`] : [`-${column}`, column]
  if (column === byNetwork) return ''
  return text === first ? second : first
}

type NodeOrder = ReturnType<typeof readOrder>

/** Rows without a figure come last either way. */
export const sortRows = (rows: readonly NodeRow[], { by, isDescending }: NodeOrder): readonly NodeRow[] => {
  if (by === byNetwork)
    return rows.toSorted(
      (a, b) =>
        Number(b.isOfNetworkWithProblem) - Number(a.isOfNetworkWithProblem) ||
        (a.network === b.network ? 0 : byProblem(a.network, b.network)),
    )
  const readValue: (row: NodeRow) => string | number | null | undefined = sortValues[by]
  return rows.toSorted((a, b) => {
    const [one, other] = [readValue(a) ?? null, readValue(b) ?? null]
    if (one === null || other === null) return Number(one === null) - Number(other === null)
    return (one === other ? 0 : one < other ? -1 : 1) * (isDescending ? -1 : 1) || rankOfNetwork(a.network) - rankOfNetwork(b.network)
  })
}

/** The rows of a network follow each other, where the first of them stands. */
export const groupRows = (rows: readonly NodeRow[]): readonly NodeRow[] => {
  const groups = new Map<string, NodeRow[]>()
  for (const row of rows) {
    const group = groups.get(row.network.name)
    if (group === undefined) groups.set(row.network.name, [row])
    else group.push(row)
  }
  return [...groups.values()].flat()
}
