import { dayMs } from '../../util/dates.ts'
import { outageKinds } from './delivery-records.ts'
import type { AlertContent, NetworkAlert } from './delivery-records.ts'
import type { SharedIncident } from './shared-incidents.ts'

/** A time in which a network did not answer its callers, or had no new blocks, as any of the gateways has seen it. */
export type NetworkOutage = Omit<NetworkAlert, 'account'>

/** Nobody is told that an older one has begun, such as a receiver that was set later. */
const maxToldAgeMs = dayMs

export const outagesOf = (incidents: readonly SharedIncident[]): readonly NetworkOutage[] =>
  incidents.flatMap(({ network, node, kind, began, ended }) =>
    node === null && isOutageKind(kind) ? [{ network, kind, began, ended }] : [],
  )

export const isOutageKind = (kind: string): kind is NetworkOutage['kind'] => outageKinds.some(each => each === kind)

/** What the account may be told of it, in this order. */
export const contentsOfOutage = (outage: NetworkOutage, account: NetworkAlert['account'], now: number): readonly AlertContent[] => [
  ...(now - Date.parse(outage.began) < maxToldAgeMs
    ? [{ type: 'incident.began' as const, data: { account, ...outage, ended: null } }]
    : []),
  ...endOfOutage(outage, account),
]

export const endOfOutage = (outage: NetworkOutage, account: NetworkAlert['account']): readonly AlertContent[] =>
  outage.ended === null ? [] : [{ type: 'incident.ended' as const, data: { account, ...outage } }]
