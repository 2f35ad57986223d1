import { drainNode, nodeId, readDrainedNodes, undrainNode } from '../../services/drained-nodes.ts'
import type { DrainedNode, NodeName } from '../../services/drained-nodes.ts'
import type { NetworkStatus, NodeCondition, UpstreamStatus } from '../../server/network-status.ts'
import { allClasses, formatByClass } from '../../services/node-reasons.ts'
import { problemSeverities } from '../../services/plugin-problems.ts'
import { StoreError } from '../../store/store.ts'
import { sleep } from '../../util/async.ts'
import { isoTimeOrNull } from '../../util/dates.ts'
import { didYouMean, formatAlternatives } from '../../util/did-you-mean.ts'
import { ApiError } from '../api-errors.ts'
import { lastHeadSchema, networkStateSchema, nodeConditionSchema } from '../network-schemas.ts'
import { classesLost } from '../nodes-left.ts'
import { nodeConditionLabels } from '../state-labels.ts'
import {
  authorSchema,
  count,
  countOrNull,
  flag,
  listOf,
  object,
  schemaRef,
  text,
  textOrNull,
  time,
  timeOrNull,
} from '../response-schemas.ts'
import { defineOperation } from './operation.ts'
import type { NodesView, OperationServices } from './operation.ts'
import { toPositiveDuration } from './positive-duration.ts'

type DrainedById = ReadonlyMap<string, DrainedNode>

type NodesOfNetwork = Pick<NetworkStatus, 'name' | 'head' | 'upstreams'>

const nodeJson = (network: NodesOfNetwork, upstream: UpstreamStatus, drainedNodes: DrainedById, isLive: boolean) => {
  const networkHead = network.head
  const drained = drainedNodes.get(nodeId({ network: network.name, upstream: upstream.name }))
  const {
    name,
    partner = false,
    head = null,
    lastHead = null,
    unusableSince = null,
    subscribed = false,
    inFlight = null,
    unreachable = false,
    because = null,
    reasons = [],
    lastReasons = [],
    errors = [],
    client = null,
    turn,
  } = upstream
  const isDrained = drained !== undefined || upstream.drained !== undefined
  const condition: NodeCondition = isDrained ? 'drained' : isLive ? upstream.condition : 'unknown'
  return {
    name,
    partner,
    client,
    place: turn?.place ?? null,
    weight: turn?.weight ?? null,
    getsCalls: describeTurn({ ...upstream, condition }, ownNodes(network, drainedNodes, isLive)),
    condition,
    usable: isLive ? upstream.usable : null,
    drained: isDrained,
    drainedSince: isoTimeOrNull(drained?.since),
    drainedBy: drained?.by ?? null,
    drainReason: drained?.reason ?? null,
    drainedUntil: isoTimeOrNull(drained?.until),
    onlyFor: isLive && !isDrained ? classesOnlyAt(network, upstream, drainedNodes) : [],
    unusableSince,
    because,
    reasons,
    lastReasons,
    errors,
    head,
    lastHead,
    // The head of a node that does not answer is an old one.
    lagBlocks: head === null || networkHead === undefined || unreachable ? null : Math.max(0, networkHead - head),
    subscribed,
    inFlight,
  }
}

export type NodeJson = ReturnType<typeof nodeJson>

interface OwnNodes {
  readonly count: number
  /** Those that get calls. */
  readonly serving: readonly UpstreamStatus[]
}

/** While no gateway answers, what is not drained counts as usable. */
const ownNodes = ({ name: network, upstreams }: NodesOfNetwork, drained: DrainedById, isLive: boolean): OwnNodes => {
  const own = upstreams.filter(({ partner }) => partner !== true)
  const isDrained = ({ name, drained: isKnown }: UpstreamStatus): boolean =>
    isKnown !== undefined || drained.has(nodeId({ network, upstream: name }))
  return { count: own.length, serving: own.filter(each => !isDrained(each) && (!isLive || each.usable)) }
}

/** Which calls it gets now, and why; null where its turn is not known. */
const describeTurn = (node: UpstreamStatus, { count, serving }: OwnNodes): string | null => {
  const { name, partner, turn, condition } = node
  if (partner !== true && turn === undefined) return null
  if (condition === 'drained') return 'no new calls, as an operator has drained it'
  if (partner === true) return 'calls that no own node can answer, of plans with forwarding'
  if (turn === undefined || !serving.some(each => each.name === name))
    return 'none while it is down, except calls that no other node can answer'
  return `${describeShare(turn, count, serving)}${describeLess(node)}`
}

/** By its weight, or its place in the order, among those that get calls. */
const describeShare = ({ place, weight }: NonNullable<UpstreamStatus['turn']>, count: number, serving: OwnNodes['serving']): string => {
  if (weight === 0) return 'calls that no other node can answer, as its weight is 0'
  const usable = serving.length < count ? ' of the usable nodes' : ''
  if (weight !== undefined) {
    const all = serving.reduce((sum, each) => sum + (each.turn?.weight ?? 0), 0)
    return `${Number(((100 * weight) / all).toFixed(1))} % of the calls by its weight, ${weight} of ${all}${usable}`
  }
  if (serving.length === 1) return `all calls, as the only${usable && ' usable'} node`
  const before = serving.filter(({ turn }) => (turn?.place ?? place) < place).length
  const of = `of ${serving.length}${usable && ' usable ones'} in the order`
  return before === 0
    ? `calls first, as the first ${of}`
    : `calls that nodes before it do not answer in time, as number ${before + 1} ${of}`
}

/** What keeps some of these calls from it. */
const describeLess = ({ condition, reasons = [] }: UpstreamStatus): string => {
  if (condition !== 'reduced') return ''
  const kept = [...new Set(reasons.filter(({ keepsAway }) => keepsAway).map(each => each.class))]
  return kept.length === 0 ? '; fewer of them now' : `; none of the class${kept.length > 1 ? 'es' : ''} ${kept.join(', ')} now`
}

const node = {
  name: text,
  partner: { ...flag, description: 'It answers in outages alone; its head is not tracked.' },
  client: {
    ...textOrNull,
    description: 'The software and its version, as web3_clientVersion has them; null where the node does not say, or has just come back.',
  },
  place: { ...countOrNull, description: 'In the order of the nodes of its network, from 1 on; null for a partner.' },
  weight: { type: ['number', 'null'], description: 'Null where the nodes of its network have none: calls go to them in their order.' },
  getsCalls: { ...textOrNull, description: 'Which calls it gets now, and why.' },
  condition: nodeConditionSchema,
  usable: {
    type: ['boolean', 'null'],
    description: 'False: it gets no calls, or only those that no other upstream can answer. Null where no gateway answers.',
  },
  drained: { ...flag, description: 'An operator has taken it out of use: it gets no new calls.' },
  drainedSince: { ...timeOrNull, description: 'Null too where the store is unreachable.' },
  drainedBy: {
    oneOf: [authorSchema, { type: 'null' }],
    description: 'Who has drained it, as the log of changes has them; null too where the store is unreachable.',
  },
  drainReason: { ...textOrNull, description: 'As who has drained it says; null too where the store is unreachable.' },
  drainedUntil: { ...timeOrNull, description: 'When it is put back by itself; null: by an operator alone.' },
  onlyFor: {
    ...listOf(text),
    description:
      'Classes of methods of which no other own node of the network gets calls: `all` for every class. It is drained by force alone.',
  },
  unusableSince: { ...timeOrNull, description: 'Null for a node that is usable, and where it is not known.' },
  because: { ...textOrNull, description: 'Why it is not usable.' },
  reasons: {
    ...listOf({
      ...object({ class: text, reason: text, text, keepsAway: flag, since: time }),
      required: ['class', 'reason', 'text', 'keepsAway'],
    }),
    description: 'Classes of methods of which it gets no calls (`keepsAway`), or fewer than usual, and why; `all` for every class.',
  },
  lastReasons: {
    ...listOf(object({ class: text, reason: text, at: time })),
    description: 'When each reason was noticed last, the newest first; those that have ended too.',
  },
  errors: {
    ...listOf(
      object({
        error: { ...text, description: 'A category of errors, an HTTP status, or a network error.' },
        count,
        lastSeen: time,
        method: { ...text, description: 'Of the last one.' },
        requestId: { ...text, description: 'Of the last one, as lines of the log have it.' },
      }),
    ),
    description: 'What attempts have failed with since the start of the gateway, the last one first: ten at most, and `other`.',
  },
  head: countOrNull,
  lastHead: lastHeadSchema,
  lagBlocks: { ...countOrNull, description: 'Null for a node that does not answer.' },
  subscribed: { ...flag, description: 'Whether its heads come over a subscription.' },
  inFlight: { ...countOrNull, description: 'Calls that wait for its response.' },
}

export const nodesProperties = {
  networks: listOf(
    object({
      name: text,
      state: networkStateSchema,
      nodes: { ...count, description: 'Without the partner.' },
      usableNodes: count,
      head: countOrNull,
      finalized: countOrNull,
      lastHead: lastHeadSchema,
      downSince: {
        ...timeOrNull,
        description: 'When the last own node became unusable; null unless the network is down, and where that is not known of each node.',
      },
      problems: {
        ...listOf(object({ plugin: text, name: text, severity: { type: 'string', enum: problemSeverities }, text, since: time })),
        description: 'What plugins of the network report.',
      },
      upstreams: listOf(object(node)),
    }),
  ),
  unconfigured: {
    ...listOf(schemaRef('Node')),
    description: 'Drained nodes that the configuration of this gateway does not have: they would be drained if they came back.',
  },
} as const

/** What the operations return, by the name in the OpenAPI document. */
export const nodeSchemas = {
  Node: object({ network: text, ...node }),
  Nodes: object(nodesProperties),
} as const

const nodeProperties = {
  network: { type: 'string', description: 'The name of the network.' },
  node: { type: 'string', description: 'The name of an upstream of the network, or of its partner.' },
} as const

const positionals = { network: 'NETWORK', node: 'NODE' } as const

/** Empty while the store is unreachable: what processes know is shown then. */
const readDrained = async (store: OperationServices['store']): Promise<DrainedById> => {
  try {
    return new Map((await readDrainedNodes(store)).map(each => [nodeId(each), each]))
  } catch (error) {
    if (error instanceof StoreError) return new Map()
    throw error
  }
}

export const readNodes = async (services: Pick<OperationServices, 'nodes' | 'store'>) => {
  const [view, drained] = await Promise.all([services.nodes(), readDrained(services.store)])
  return {
    networks: view.networks.map(network => ({
      name: network.name,
      state: network.state,
      nodes: network.nodes,
      usableNodes: network.usableNodes,
      head: network.head ?? null,
      finalized: network.finalized ?? null,
      lastHead: network.lastHead ?? null,
      downSince: network.downSince ?? null,
      problems: network.problems ?? [],
      upstreams: network.upstreams.map(each => nodeJson(network, each, drained, view.isLive)),
    })),
    // Drained nodes that are in no configuration any more, as far as this gateway knows.
    unconfigured: [...drained.values()].filter(each => !isConfigured(view, each)).map(each => unconfiguredJson(each, drained)),
  }
}

export type NodesJson = Awaited<ReturnType<typeof readNodes>>

const notConfigured = 'not in the configuration'

/** A node of which nothing is known but that an operator has drained it, or had. */
const unconfiguredJson = ({ network, upstream: name }: NodeName, drained: DrainedById) => {
  const upstream = { name, condition: 'unknown', usable: false, because: notConfigured } as const
  return { network, ...nodeJson({ name: network, upstreams: [] }, upstream, drained, false) }
}

const isConfigured = ({ networks }: NodesView, { network, upstream }: NodeName): boolean =>
  networks.some(each => each.name === network && each.upstreams.some(({ name }) => name === upstream))

/** Throws ApiError. */
export const findNetwork = ({ networks }: NodesView, network: string) => {
  const found = networks.find(({ name }) => name === network)
  if (found === undefined) throw unknownName('network', network, networks)
  return found
}

/** Throws ApiError. */
export const findNode = (view: NodesView, network: string, node: string) => {
  const found = findNetwork(view, network)
  const upstream = found.upstreams.find(({ name }) => name === node)
  if (upstream === undefined) throw unknownName('node', node, found.upstreams, ` of ${network}`)
  return { network: found, upstream }
}

const unknownName = (what: string, name: string, known: readonly { readonly name: string }[], owner = ''): ApiError => {
  const names = known.map(each => each.name)
  const hint = didYouMean(name, names) ?? (names.length === 0 ? 'there is none' : `expected ${formatAlternatives(names)}`)
  return new ApiError(404, 'not-found', `unknown ${what} "${name}"${owner}; ${hint}`)
}

interface NodeInput {
  readonly network: string
  readonly node: string
}

/** Classes of methods of which no other own node of the network would get calls. */
const classesOnlyAt = ({ name: network, upstreams }: NodesOfNetwork, node: UpstreamStatus, drained: DrainedById): readonly string[] =>
  classesLost(upstreams, [node], ({ name }) => drained.has(nodeId({ network, upstream: name })))

const lastNode = ({ network, node }: NodeInput, classes: readonly string[]): ApiError => {
  const [other, failing] = classes.includes(allClasses)
    ? ['is usable', 'calls']
    : [`gets calls of ${classes.length === 1 ? 'class' : 'the classes'} ${classes.join(', ')}`, 'those']
  const message = `no other node of ${network} ${other}: without ${node} ${failing} would fail; \`force\` drains it all the same`
  return new ApiError(409, 'last-node', message)
}

/** Processes read which nodes are drained each second. */
const maxWaitMs = 2_000
const waitStepMs = 100

/** The node, once each process of the gateway that answers keeps calls away from it, or no longer does; or after a time. */
const showNode = async (services: OperationServices, input: NodeInput, isDrained: boolean) => {
  for (let waitedMs = 0; ; waitedMs += waitStepMs) {
    const view = await services.nodes()
    const { network, upstream } = findNode(view, input.network, input.node)
    const isInForce = upstream.drained === (isDrained || undefined)
    if (!isInForce && view.isLive && waitedMs < maxWaitMs) await sleep(services.clock, waitStepMs)
    else {
      return { network: input.network, ...nodeJson(network, upstream, await readDrained(services.store), view.isLive) }
    }
  }
}

export const nodeOperations = [
  defineOperation({
    name: 'nodes list',
    method: 'get',
    path: '/nodes',
    summary: 'What calls meet: each network with its head, and its nodes with state, reasons, lag and calls in flight.',
    input: { type: 'object', properties: {} },
    output: schemaRef('Nodes'),
    run: (_input, services) => readNodes(services),
    command: {
      text: ({ networks, unconfigured }) => [
        {
          columns: ['NETWORK', 'NODE', 'STATE', 'SINCE', 'HEAD', 'LAG', 'IN FLIGHT', 'TURN', 'CLIENT', 'WHY'],
          rows: [
            ...networks.flatMap(({ name, upstreams }) => upstreams.map(each => toCells(name, each))),
            ...unconfigured.map(each => toCells(each.network, each)),
          ],
        },
        ...errorTable(networks),
        ...problemTable(networks),
      ],
    },
  }),
  defineOperation({
    name: 'nodes drain',
    method: 'post',
    path: '/nodes/{network}/{node}/drain',
    summary: 'Keeps new calls away from a node, on every gateway that uses the store, until it is put back. Its calls in flight finish.',
    input: {
      type: 'object',
      properties: {
        ...nodeProperties,
        force: {
          type: 'boolean',
          default: false,
          description:
            'Drains the last usable node of the network, or of a class of methods, too: those calls fail then, or go to the partner.',
        },
        reason: { type: 'string', maxLength: 200, description: 'Why, for other operators: such as a ticket.' },
        for: { type: 'string', description: 'After this time, such as 2h, it is put back; without it, when an operator does that.' },
      },
      required: ['network', 'node'],
    },
    output: schemaRef('Node'),
    check: ({ for: duration }) => void (duration === undefined || toPositiveDuration('for', duration)),
    async run({ network: networkName, node: upstream, force, reason: typedReason = '', for: duration }, services) {
      const { store, clock, accounts } = services
      const reason = typedReason.trim()
      const input = { network: networkName, node: upstream }
      const { network, upstream: found } = findNode(await services.nodes(), networkName, upstream)
      const refuseLast = (drained: DrainedById): ApiError | undefined => {
        const classes = force ? [] : classesOnlyAt(network, found, drained)
        return classes.length === 0 ? undefined : lastNode(input, classes)
      }
      const before = await readDrained(store)
      const refusal = before.has(nodeId({ network: networkName, upstream })) ? undefined : refuseLast(before)
      if (refusal !== undefined) throw refusal
      const since = clock.now()
      const why = {
        ...(reason !== '' && { reason }),
        ...(duration !== undefined && { until: since + toPositiveDuration('for', duration) }),
      }
      if (await drainNode(store, { network: networkName, upstream, since, by: accounts.author, ...why })) {
        // Another operator may just have drained the other one.
        const lateRefusal = refuseLast(await readDrained(store))
        if (lateRefusal !== undefined) {
          await undrainNode(store, { network: networkName, upstream })
          throw lateRefusal
        }
        await accounts.record({ action: 'node-drained', target: nodeId({ network: networkName, upstream }), after: why })
      }
      return showNode(services, input, true)
    },
    command: {
      positionals,
      flags: { force: { isSwitch: true }, reason: { placeholder: 'TEXT' }, for: { placeholder: 'DURATION' } },
      text: ({ network, name, inFlight }) => [`${network}/${name} gets no new calls${formatInFlight(inFlight)}`],
    },
  }),
  defineOperation({
    name: 'nodes undrain',
    method: 'post',
    path: '/nodes/{network}/{node}/undrain',
    summary: 'Sends calls to a drained node again; one that is not in the configuration gets them once it is.',
    input: { type: 'object', properties: nodeProperties, required: ['network', 'node'] },
    output: schemaRef('Node'),
    async run(input, services) {
      const view = await services.nodes()
      const node = { network: input.network, upstream: input.node }
      const isUndrained = await undrainNode(services.store, node)
      if (isUndrained) await services.accounts.record({ action: 'node-undrained', target: nodeId(node) })
      return isUndrained && !isConfigured(view, node) ? unconfiguredJson(node, new Map()) : showNode(services, input, false)
    },
    command: {
      positionals,
      text: ({ network, name, because }) => [
        because === notConfigured ? `${network}/${name} is no longer drained; it is ${because}` : `${network}/${name} gets calls again`,
      ],
    },
  }),
]

const formatInFlight = (inFlight: number | null): string =>
  inFlight === null ? '' : inFlight === 0 ? '; none is in flight' : `; ${inFlight} in flight`

/** What attempts have failed with, the last one first. */
const errorTable = (networks: NodesJson['networks']) => {
  const errors = networks.flatMap(({ name, upstreams }) =>
    upstreams.flatMap(each => each.errors.map(error => ({ network: name, node: each.name, ...error }))),
  )
  const rows = errors
    .sort((a, b) => (a.lastSeen < b.lastSeen ? 1 : -1))
    .map(({ network, node, error, count, lastSeen, method, requestId }) => [
      network,
      node,
      error,
      `${count}`,
      lastSeen.slice(0, 19),
      method,
      requestId,
    ])
  return rows.length === 0 ? [] : ['', { columns: ['NETWORK', 'NODE', 'FAILED WITH', 'FAILURES', 'LAST', 'METHOD', 'REQUEST ID'], rows }]
}

const problemTable = (networks: NodesJson['networks']) => {
  const rows = networks.flatMap(({ name: network, problems }) =>
    problems.map(({ plugin, name, severity, since, text: why }) => [network, plugin, name, severity, since.slice(0, 19), why]),
  )
  return rows.length === 0 ? [] : ['', { columns: ['NETWORK', 'PLUGIN', 'PROBLEM', 'SEVERITY', 'SINCE', 'WHY'], rows }]
}

const toCells = (network: string, each: NodeJson): readonly string[] => {
  const { name, condition, because, reasons, drainReason, drainedUntil } = each
  const shownReasons = reasons.filter(({ reason }) => reason !== 'drained')
  const why = [
    ...(because === null ? [] : [because]),
    ...(drainReason === null ? [] : [drainReason]),
    ...(drainedUntil === null ? [] : [`until ${drainedUntil.slice(0, 19)}`]),
    ...shownReasons.map(({ class: methodClass, reason }) => formatByClass(reason, methodClass)),
  ]
  const since = (each.drainedSince ?? each.unusableSince)?.slice(0, 19) ?? '-'
  return [
    network,
    name,
    nodeConditionLabels[condition],
    since,
    ...[each.head, each.lagBlocks, each.inFlight].map(value => String(value ?? '-')),
    each.weight === null ? String(each.place ?? '-') : `weight ${each.weight}`,
    each.client ?? '-',
    why.join('; '),
  ]
}
