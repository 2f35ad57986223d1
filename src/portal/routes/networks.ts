import { notFound } from '../api-errors.ts'
import { listOf, schemaRef } from '../openapi.ts'
import type { PortalNetwork } from '../portal-services.ts'
import { defineRoute } from '../route.ts'

/** A network as its callers see it. */
export interface NetworkJson extends Omit<PortalNetwork, 'methods'> {
  /** Null before the first head is known. */
  readonly head: number | null
  readonly finalized: number | null
  readonly nodes: number
  readonly usableNodes: number
}

export const networkRoutes = [
  defineRoute({
    method: 'get',
    path: '/networks',
    summary: 'The networks, their URLs, their newest block, and how many of their nodes can be used.',
    role: 'viewer',
    response: listOf(schemaRef('Network')),
    handle(_request, { networks, headsStatus }): readonly NetworkJson[] {
      const statuses = new Map(headsStatus().map(status => [status.name, status]))
      return networks.map(({ name, chainId, http, ws }) => {
        const { head, finalized, upstreams = [] } = statuses.get(name) ?? {}
        const usable = upstreams.filter(upstream => upstream.usable).length
        return { name, chainId, http, ws, head: head ?? null, finalized: finalized ?? null, nodes: upstreams.length, usableNodes: usable }
      })
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
