import { isoTime } from '../../util/dates.ts'
import type { NamedBrand } from '../brand.ts'
import { listOperatorDeliveries } from './delivery-records.ts'
import type { OperatorDelivery } from './delivery-records.ts'
import { summarizeAlert } from './message-format.ts'
import { operatorReceivers } from './operator-alerts.ts'
import type { OperatorReceivers } from './operator-alerts.ts'

/** As gateway.yaml has them, each with what became of its last message; without the URL of a webhook, which may hold a key. Rejects where the store fails. */
export const describeReceivers = async (
  store: Parameters<typeof listOperatorDeliveries>[0],
  receivers: OperatorReceivers,
  brand: NamedBrand | undefined,
) => {
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
