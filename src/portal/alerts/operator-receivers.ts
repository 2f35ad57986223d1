import { isoTime } from '../../util/dates.ts'
import type { ProblemSeverity } from '../../services/plugin-problems.ts'
import type { NamedBrand } from '../brand.ts'
import { listOperatorDeliveries } from './delivery-records.ts'
import type { Delivery, OperatorDelivery } from './delivery-records.ts'
import { summarizeAlert } from './message-format.ts'
import { operatorReceivers } from './operator-alerts.ts'
import type { OperatorReceivers } from './operator-alerts.ts'

/** One of `portal.operatorAlerts`, without the URL of a webhook, which may hold a key. */
export interface OperatorReceiverJson extends Pick<Delivery, 'channel'> {
  /** The address, or the name of the webhook. */
  readonly receiver: string
  /** The least one that it is told of. */
  readonly severity: ProblemSeverity
  /** What it was sent last, in the last 24 hours. */
  readonly last: (Pick<Delivery, 'state'> & { readonly text: string; readonly created: string; readonly lastStatus: string | null }) | null
}

/** As gateway.yaml has them, each with what became of its last message. Rejects where the store fails. */
export const describeReceivers = async (
  store: Parameters<typeof listOperatorDeliveries>[0],
  receivers: OperatorReceivers,
  brand: NamedBrand | undefined,
): Promise<readonly OperatorReceiverJson[]> => {
  const sent = (await listOperatorDeliveries(store)).toSorted((a, b) => b.created - a.created)
  return operatorReceivers(receivers).map(({ channel, receiver = '', severity }) => {
    const last = sent.find(each => each.channel === channel && each.receiver === receiver)
    return { channel, receiver, severity, last: last === undefined ? null : describeLast(last, brand) }
  })
}

const describeLast = ({ message, state, created, lastStatus }: OperatorDelivery, brand: NamedBrand | undefined) => ({
  text: summarizeAlert(message, brand),
  state,
  created: isoTime(created),
  lastStatus: lastStatus ?? null,
})
