import { notFound } from '../api-errors.ts'
import { listOf, schemaRef } from '../openapi.ts'
import type { PortalNetwork, PortalServices } from '../portal-services.ts'
import { definePublicRoute, defineRoute } from '../route.ts'

/** `unknown` while no head is known: nobody has called the network lately. */
type NetworkState = 'ok' | 'degraded' | 'down' | 'unknown'

/** Whether calls to a network are answered now. */
export interface NetworkStatusJson extends Pick<PortalNetwork, 'name' | 'chainId'> {
  readonly state: NetworkState
  /** Null before the first head is known. */
  readonly head: number | null
  readonly finalized: number | null
  /** How many blocks the last of the usable nodes is behind; null where no head is known. */
  readonly lagBlocks: number | null
  readonly nodes: number
  readonly usableNodes: number
}

/** A network as its callers see it. */
export type NetworkJson = NetworkStatusJson & Pick<PortalNetwork, 'http' | 'ws'>

type Status = ReturnType<PortalServices['headsStatus']>[number]

const statusOf = ({ name, chainId }: PortalNetwork, { head, finalized, upstreams = [] }: Partial<Status>): NetworkStatusJson => {
  const usable = upstreams.filter(upstream => upstream.usable)
  const heads = usable.flatMap(upstream => upstream.head ?? [])
  return {
    ...{ name, chainId, head: head ?? null, finalized: finalized ?? null, nodes: upstreams.length, usableNodes: usable.length },
    lagBlocks: head === undefined || heads.length === 0 ? null : Math.max(0, head - Math.min(...heads)),
    state: stateOf(upstreams.length, usable.length, head !== undefined),
  }
}

const stateOf = (nodes: number, usable: number, hasHead: boolean): NetworkState => {
  if (nodes > 0 && usable === 0) return 'down'
  if (nodes === 0 || !hasHead) return 'unknown'
  return usable < nodes ? 'degraded' : 'ok'
}

const networksWithStatus = ({ networks, headsStatus }: PortalServices) => {
  const statuses = new Map(headsStatus().map(status => [status.name, status]))
  return networks.map(network => ({ network, status: statusOf(network, statuses.get(network.name) ?? {}) }))
}

export const networkRoutes = [
  defineRoute({
    method: 'get',
    path: '/networks',
    summary: 'The networks, their URLs, their newest block, and how many of their nodes can be used.',
    role: 'viewer',
    response: listOf(schemaRef('Network')),
    handle: (_request, services): readonly NetworkJson[] =>
      networksWithStatus(services).map(({ network: { http, ws }, status }) => ({ ...status, http, ws })),
  }),
  definePublicRoute({
    method: 'get',
    path: '/status',
    summary: 'Whether calls to the networks are answered, for everybody; where `portal.publicStatus` of gateway.yaml is set.',
    role: 'anyone',
    response: listOf(schemaRef('NetworkStatus')),
    handle(_request, services): readonly NetworkStatusJson[] {
      if (services.publicStatus !== true) throw notFound('public status')
      return networksWithStatus(services).map(({ status }) => status)
    },
  }),
  defineRoute({
    method: 'get',
    path: '/networks/{name}/methods',
    summary: 'The methods of a network: the credits of one call, and the parameters.',
    role: 'viewer',
    response: listOf(schemaRef('Method')),
    handle({ params: { name } }, { networks }) {
      const network = networks.find(each => each.name === name)
      if (network === undefined) throw notFound('network')
      return network.methods
    },
  }),
]
