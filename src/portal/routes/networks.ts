import { inServiceOf } from '../../server/network-status.ts'
import type { NetworkStatus } from '../../server/network-status.ts'
import type { NetworkRateLimits } from '../../services/rate-limit-options.ts'
import { isoTime, isoTimeOrNull } from '../../util/dates.ts'
import { networkIncidents, seenOutages } from '../alerts/network-incidents.ts'
import { firstDayOf, observedSecondsOf, observedSinceOf, outageDaysOf, unobservedDaysOf, withObservedNow } from '../alerts/outage-days.ts'
import { notFound } from '../api-errors.ts'
import { listOf, schemaRef } from '../response-schemas.ts'
import type { PortalNetwork, PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'

/** Calls and credits per second, and calls at once; null where there is no limit. */
const rateLimitsJson = ({ account = {}, key = {}, ip = {} }: NetworkRateLimits) => ({
  // Without a rate of the plan, which takes the place of it.
  accountRate: account.rate ?? null,
  accountBurst: account.burst ?? null,
  accountCreditRate: account.creditRate ?? null,
  keyRate: key.rate ?? null,
  ipRate: ip.rate ?? null,
})

export type RateLimitsJson = ReturnType<typeof rateLimitsJson>

const statusOf = ({ name, chainId }: PortalNetwork, status: NetworkStatus | undefined) => {
  const { head, finalized = null, lastHead = null, state = 'unknown', usableNodes = 0, upstreams = [] } = status ?? {}
  const own = upstreams.filter(({ partner }) => partner !== true)
  const heads = own.filter(({ usable }) => usable).flatMap(upstream => upstream.head ?? [])
  return {
    name,
    chainId,
    state,
    head: head ?? null,
    finalized,
    lastHead,
    // Without those that an operator has drained, unless that is all.
    nodes: inServiceOf(own).length,
    usableNodes,
    lagBlocks: head === undefined || heads.length === 0 ? null : Math.max(0, head - Math.min(...heads)),
  }
}

const networksWithStatus = async (services: PortalServices) => {
  const { networks, networkStatuses, outageHistory, clock } = services
  const [found, incidents, history] = await Promise.all([networkStatuses(), services.incidents(), outageHistory()])
  // What is shown now is in them.
  incidents.recordStates(found)
  const statuses = new Map(found.map(status => [status.name, status]))
  const now = clock.now()
  return networks.map(network => {
    const status = statuses.get(network.name)
    const read = history?.get(network.name) ?? []
    const recorded = (status?.state ?? 'unknown') === 'unknown' ? read : withObservedNow(read, now)
    const logged = incidents.list(network.name)
    const partners = new Set(status?.upstreams.flatMap(({ name, partner }) => (partner === true ? [name] : [])))
    return {
      network,
      status: {
        ...statusOf(network, status),
        incidents: networkIncidents(recorded, logged, partners, now).map(({ began, ended, ...incident }) => ({
          ...incident,
          began: isoTime(began),
          ended: isoTimeOrNull(ended),
        })),
        outageDays: history === undefined ? null : outageDaysOf(recorded, seenOutages(logged), now),
        outagesSince: firstDayOf(recorded),
        unobservedDays: unobservedDaysOf(recorded, now),
        observedSince: isoTimeOrNull(observedSinceOf(recorded)),
        observedSeconds: history === undefined ? null : observedSecondsOf(recorded, now),
      },
    }
  })
}

/** Whether calls to a network are answered now. */
export type NetworkStatusJson = Awaited<ReturnType<typeof networksWithStatus>>[number]['status']

/** A network as its callers see it. */
const listNetworks = async (services: PortalServices) =>
  (await networksWithStatus(services)).map(({ network: { http, ws, rateLimits }, status }) => ({
    ...status,
    ...{ http, ws, rateLimits: rateLimits && rateLimitsJson(rateLimits) },
  }))

export type NetworkJson = Awaited<ReturnType<typeof listNetworks>>[number]

export const networkRoutes = [
  defineRoute({
    method: 'get',
    path: '/networks',
    summary: 'The networks, their URLs, their newest block, and how many of their nodes can be used.',
    role: 'viewer',
    response: listOf(schemaRef('Network')),
    handle: (_request, services) => listNetworks(services),
  }),
  defineRoute({
    method: 'get',
    path: '/status',
    summary: 'Whether calls to the networks are answered, for everybody; where `portal.publicStatus` of gateway.yaml is set.',
    role: 'anyone',
    response: listOf(schemaRef('NetworkStatus')),
    async handle(_request, services) {
      if (services.publicStatus !== true) throw notFound('public status')
      return (await networksWithStatus(services)).map(({ status }) => status)
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
