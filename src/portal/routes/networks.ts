import { inServiceOf } from '../../server/network-status.ts'
import type { NetworkStatus } from '../../server/network-status.ts'
import type { NetworkRateLimits } from '../../services/rate-limit-options.ts'
import { isoTime, isoTimeOrNull } from '../../util/dates.ts'
import { networkIncidents, seenOutages } from '../alerts/network-incidents.ts'
import type { NetworkIncident } from '../alerts/network-incidents.ts'
import { firstDayOf, observedSecondsOf, outageDaysOf, unobservedDaysOf } from '../alerts/outage-days.ts'
import type { ObservedSeconds, OutageDay, UnobservedDays } from '../alerts/outage-days.ts'
import { notFound } from '../api-errors.ts'
import { listOf, schemaRef } from '../openapi.ts'
import type { PortalNetwork, PortalServices } from '../portal-services.ts'
import { definePublicRoute, defineRoute } from '../route.ts'

/** Whether calls to a network are answered now. */
export interface NetworkStatusJson extends Pick<PortalNetwork, 'name' | 'chainId'>, Pick<NetworkStatus, 'state' | 'usableNodes'> {
  /** Its own, without those that an operator has drained, unless that is all. */
  readonly nodes: number
  /** Null before the first head is known, and while no node answers. */
  readonly head: number | null
  readonly finalized: number | null
  /** The newest block that was seen, also while no node answers; null before the first. */
  readonly lastHead: NonNullable<NetworkStatus['lastHead']> | null
  /** How many blocks the last of the usable nodes is behind; null where no head is known. */
  readonly lagBlocks: number | null
  /** Of the last 24 hours, the newest first: degraded ones as far as this gateway has run. */
  readonly incidents: readonly NetworkIncidentJson[]
  /** Days of the last 90 with outages, in order; null while the store cannot be read. */
  readonly outageDays: readonly OutageDay[] | null
  /** The first day (YYYY-MM-DD) whose outages are recorded; null before there is one. */
  readonly outagesSince: string | null
  /** Days since then, of the last 90, on which no gateway has observed the network, as it had no calls; in order. */
  readonly unobservedDays: readonly UnobservedDays[]
  /** How long a gateway knew how the network was; null while the store cannot be read. */
  readonly observedSeconds: ObservedSeconds | null
}

/** A time in which calls to a network failed, or it had no new block, fewer nodes or slow ones. */
export interface NetworkIncidentJson extends Pick<NetworkIncident, 'state' | 'because'> {
  /** ISO 8601. */
  readonly began: string
  /** Null while it lasts. */
  readonly ended: string | null
}

/** A network as its callers see it. */
export interface NetworkJson extends NetworkStatusJson, Pick<PortalNetwork, 'http' | 'ws'> {
  /** Null where no rate is limited: that of the plan, and those of keys, have no effect there. */
  readonly rateLimits: RateLimitsJson | null
}

/** Calls and credits per second, and calls at once; null where there is no limit. */
export interface RateLimitsJson {
  /** Without a rate of the plan, which takes the place of it. */
  readonly accountRate: number | null
  readonly accountBurst: number | null
  readonly accountCreditRate: number | null
  readonly keyRate: number | null
  readonly ipRate: number | null
}

const rateLimitsJson = ({ account = {}, key = {}, ip = {} }: NetworkRateLimits): RateLimitsJson => ({
  accountRate: account.rate ?? null,
  accountBurst: account.burst ?? null,
  accountCreditRate: account.creditRate ?? null,
  keyRate: key.rate ?? null,
  ipRate: ip.rate ?? null,
})

type StatusOfNow = Omit<NetworkStatusJson, 'incidents' | 'outageDays' | 'outagesSince' | 'unobservedDays' | 'observedSeconds'>

const statusOf = ({ name, chainId }: PortalNetwork, status: NetworkStatus | undefined): StatusOfNow => {
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
    const recorded = history?.get(network.name) ?? []
    const logged = incidents.list(network.name)
    const status = statuses.get(network.name)
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
        observedSeconds: history === undefined ? null : observedSecondsOf(recorded, now),
      },
    }
  })
}

export const networkRoutes = [
  defineRoute({
    method: 'get',
    path: '/networks',
    summary: 'The networks, their URLs, their newest block, and how many of their nodes can be used.',
    role: 'viewer',
    response: listOf(schemaRef('Network')),
    handle: async (_request, services): Promise<readonly NetworkJson[]> =>
      (await networksWithStatus(services)).map(({ network: { http, ws, rateLimits }, status }) => ({
        ...status,
        ...{ http, ws, rateLimits: rateLimits && rateLimitsJson(rateLimits) },
      })),
  }),
  definePublicRoute({
    method: 'get',
    path: '/status',
    summary: 'Whether calls to the networks are answered, for everybody; where `portal.publicStatus` of gateway.yaml is set.',
    role: 'anyone',
    response: listOf(schemaRef('NetworkStatus')),
    async handle(_request, services): Promise<readonly NetworkStatusJson[]> {
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
