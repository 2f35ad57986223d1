import type { DrainedNodes } from './drained-nodes.ts'
import { getOrCreate } from '../util/memoize.ts'
import { metricDefinitions } from './metric-definitions.ts'
import type { Metrics } from './metrics.ts'
import { allClasses } from './node-reasons.ts'
import type { NodeReason } from './node-reasons.ts'
import { NodeTrust } from './node-trust.ts'

/** A class of methods, of which a node gets no calls or fewer than usual; `all` stands for every class. */
interface NodeRestriction {
  readonly class: string
  readonly reason: NodeReason
}

/** What attempts have failed with at a node. */
export interface NodeError {
  /** A category of errors, an HTTP status, or a network error, as log lines have it. */
  readonly error: string
  /** Since the start of the process, or a change of the node's options. */
  readonly count: number
  /** Of the last one, in ms since 1970. */
  readonly at: number
  readonly method: string
  readonly requestId: string
}

/** What calls meet at a node, as one process has it; plain data, so that workers can send it to the primary. */
export interface NodeStatus {
  readonly network: string
  readonly upstream: string
  readonly isPartner: boolean
  /** Calls that wait for its response. */
  readonly inFlight: number
  /** Whether it gets calls of classes that are not restricted. */
  readonly usable: boolean
  readonly restrictions: readonly NodeRestriction[]
  /** When each restriction was noticed last, and since when then, in ms since 1970; those that have ended too. */
  readonly lastRestrictions: readonly (NodeRestriction & { readonly at: number; readonly since: number })[]
  readonly errors: readonly NodeError[]
  /** Undefined for a partner, and where no plugin has said. */
  readonly turn?: Omit<NodeTurn, 'upstream'>
}

/** When a node gets calls, as configured: in the order of places, from 1 on; with weights, in proportion to them. */
interface NodeTurn {
  readonly upstream: string
  readonly place: number
  readonly weight?: number | undefined
}

type OwnStatus = Omit<NodeStatus, 'network' | 'upstream' | 'turn'>

/** For a plugin that sends calls to nodes. */
export interface NodeStatusReports {
  /** `read` says what calls meet at the upstream now. Returns how to end it. */
  add(upstream: string, read: () => OwnStatus): () => void
  /** While a pipeline takes over from another, the turns of the later one are shown. Returns how to end it. */
  addTurns(turns: readonly NodeTurn[]): () => void
  /** Which nodes have returned what is proven wrong. */
  readonly trust: NodeTrust
  /** What calls meet at the upstream now; undefined for one that no plugin has reported. */
  statusOf(upstream: string): OwnStatus | undefined
  /** The nodes of the network that operators have drained: the same set until that changes. */
  readonly drained: ReadonlySet<string>
  /** False while this process cannot read which nodes are drained: `drained` is what it has read last, if anything. */
  readonly isDrainedKnown: boolean
  /** `listener` is called when that may have changed. Returns how to end that. */
  onDrained(listener: () => void): () => void
}

interface ReportedNode {
  readonly network: string
  readonly upstream: string
  read(): OwnStatus
  /** The restrictions that have been in the metrics. */
  readonly shown: Map<string, NodeRestriction>
}

const keyOf = ({ class: methodClass, reason }: NodeRestriction): string => `${methodClass} ${reason}`

const usualRestrictions = (['breaker', 'rateLimited', 'rateSpent', 'drained'] as const).map(
  (reason): NodeRestriction => ({ class: allClasses, reason }),
)

type OperatorsNodes = Pick<DrainedNodes, 'isCurrent' | 'of' | 'since' | 'onReadmitted' | 'onChange'>

const noNodes: ReadonlySet<string> = new Set()
const noDrainedNodes: OperatorsNodes = {
  isCurrent: true,
  of: () => noNodes,
  since: () => undefined,
  onReadmitted: () => undefined,
  onChange: () => () => undefined,
}

/** The states of all nodes of this process. The metrics are taken from them. */
export class NodeStatuses {
  readonly #metrics: Metrics
  readonly #drainedNodes: OperatorsNodes
  readonly #nodes = new Set<ReportedNode>()
  readonly #trustByNetwork = new Map<string, NodeTrust>()
  readonly #turnsByNetwork = new Map<string, Set<readonly NodeTurn[]>>()

  constructor(metrics: Metrics, drainedNodes: OperatorsNodes = noDrainedNodes) {
    this.#metrics = metrics
    this.#drainedNodes = drainedNodes
    metrics.collect(() => this.#measure())
    drainedNodes.onReadmitted(({ network, upstream }) => this.#trustByNetwork.get(network)?.readmit(upstream))
  }

  /** The reports of one network. */
  of(network: string): NodeStatusReports {
    const drainedNodes = this.#drainedNodes
    return {
      trust: getOrCreate(this.#trustByNetwork, network, () => new NodeTrust()),
      get drained() {
        return drainedNodes.of(network)
      },
      get isDrainedKnown() {
        return drainedNodes.isCurrent
      },
      onDrained: listener => drainedNodes.onChange(listener),
      addTurns: turns => {
        const all = getOrCreate(this.#turnsByNetwork, network, () => new Set())
        const own = [...turns]
        all.add(own)
        return () => void all.delete(own)
      },
      statusOf: upstream =>
        Array.from(this.#nodes)
          .find(node => node.network === network && node.upstream === upstream)
          ?.read(),
      add: (upstream, read) => {
        // Alerts take averages, for which a gauge must be 0 before.
        const shown = new Map(usualRestrictions.map(restriction => [keyOf(restriction), restriction]))
        const node = { network, upstream, read, shown }
        this.#nodes.add(node)
        return () => {
          this.#nodes.delete(node)
          // Another node of the name shows its own with the next measurement.
          for (const restriction of shown.values()) this.#set(node, restriction, 0)
        }
      },
    }
  }

  read(): readonly NodeStatus[] {
    return Array.from(this.#nodes, ({ network, upstream, read }) => {
      const status = read()
      const since = this.#drainedNodes.since({ network, upstream })
      const turn = [...(this.#turnsByNetwork.get(network) ?? [])].flat().findLast(each => each.upstream === upstream)
      return {
        ...{ network, upstream, ...status },
        ...(since !== undefined && { lastRestrictions: drainedSince(status, since) }),
        ...(turn !== undefined && { turn: { place: turn.place, ...(turn.weight !== undefined && { weight: turn.weight }) } }),
      }
    })
  }

  /** While a pipeline takes over from another, both may have a node of the same name: one that is restricted counts. */
  #measure(): void {
    for (const node of this.#nodes) for (const restriction of node.shown.values()) this.#set(node, restriction, 0)
    for (const node of this.#nodes) {
      for (const restriction of node.read().restrictions) {
        node.shown.set(keyOf(restriction), restriction)
        this.#set(node, restriction, 1)
      }
    }
  }

  #set({ network, upstream }: ReportedNode, restriction: NodeRestriction, value: 0 | 1): void {
    this.#metrics.gauge(metricDefinitions.upstreamReduced, { network, upstream, ...restriction }).set(value)
  }
}

/** Processes notice a drain some time after the operator. */
const drainedSince = ({ lastRestrictions }: OwnStatus, since: number): OwnStatus['lastRestrictions'] =>
  lastRestrictions.map(each => (each.reason === 'drained' ? { ...each, since } : each))
