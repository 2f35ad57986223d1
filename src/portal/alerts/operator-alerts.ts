import type { Secret } from '../../plugin/secret.ts'
import type { ProblemSeverity } from '../../services/plugin-problems.ts'
import { dayMs, isoTime } from '../../util/dates.ts'
import type { RecordServices } from '../record-services.ts'
import { isDue } from './delivery-attempts.ts'
import type { DeliveryTarget, FindTarget } from './delivery-attempts.ts'
import { addDelivery, listOperatorDeliveries, replaceDelivery } from './delivery-records.ts'
import type { Delivery, OperatorAlert, OperatorDelivery } from './delivery-records.ts'
import type { WebhookFormat } from './message-format.ts'
import type { SharedIncident } from './shared-incidents.ts'
import type { WebhookTarget } from './webhook-message.ts'
import { operatorsId } from './webhook-signature.ts'

/** `portal.operatorAlerts` of gateway.yaml. */
export interface OperatorReceivers {
  readonly mail: readonly string[]
  /** The least one that is told. */
  readonly severity: ProblemSeverity
  readonly webhooks: Readonly<Record<string, OperatorWebhook>>
}

interface OperatorWebhook {
  readonly url: Secret
  readonly format: WebhookFormat
  readonly severity?: ProblemSeverity
}

export interface OperatorAlertOptions extends RecordServices {
  readonly receivers: OperatorReceivers
  /** Of the operator's page, where it is known. */
  readonly operatorUrl: string | undefined
}

/** Calls go to other nodes: what is over by then is told to nobody. */
export const warningDelayMs = 60_000

/** Beginnings of one incident that a receiver is told of in `deliveryRetentionMs`, and of all warnings together. */
export const maxOfIncident = 10
const maxWarnings = 100

const deliveryRetentionMs = dayMs

type OperatorReceiver = Pick<OperatorDelivery, 'channel' | 'receiver'> & { readonly severity: ProblemSeverity }

/** Each of them, with the least severity that it is told of. */
export const operatorReceivers = ({ mail, severity, webhooks }: OperatorReceivers): readonly OperatorReceiver[] => [
  ...mail.map(receiver => ({ channel: 'email' as const, receiver, severity })),
  ...Object.entries(webhooks).map(([receiver, each]) => ({ channel: 'webhook' as const, receiver, severity, ...severityOf(each) })),
]

/** Tells operators of incidents: of each that gateways on the store see, one message when it begins and one when it has ended. */
export class OperatorAlerts {
  readonly #options: OperatorAlertOptions
  readonly #receivers: readonly OperatorReceiver[]

  constructor(options: OperatorAlertOptions) {
    this.#options = options
    this.#receivers = operatorReceivers(options.receivers)
  }

  /** Adds messages for what has begun and ended, and starts those that are due. For one gateway at a time. */
  async update(incidents: readonly SharedIncident[], start: (id: string, findTarget: FindTarget) => void): Promise<void> {
    const { store, clock } = this.#options
    const now = clock.now()
    const known = new Map((await listOperatorDeliveries(store)).map(delivery => [delivery.id, delivery]))
    for (const { seen, hasEnded, acknowledged, record: _, ...incident } of incidents) {
      const isTold = incident.severity === 'critical' || seen >= Date.parse(incident.began) + warningDelayMs
      const alert = (type: OperatorAlert['type'], ended: string | null): OperatorAlert => ({ type, data: { ...incident, ended } })
      for (const receiver of this.#receivers.filter(each => wants(each, incident))) {
        const began = newDelivery(receiver, alert('incident.began', null), now)
        if (!known.has(began.id) && (hasEnded || !isTold || hasReachedLimit([...known.values()], began))) continue
        if (acknowledged !== undefined && incident.ended === null) await this.#extendRetention(known.get(began.id))
        const ended = incident.ended === null ? [] : [newDelivery(receiver, alert('incident.ended', incident.ended), now)]
        for (const delivery of [began, ...ended])
          if (!known.has(delivery.id) && (await addDelivery(store, delivery))) known.set(delivery.id, delivery)
      }
    }
    for (const delivery of known.values())
      if (this.#receivers.some(each => isFor(each, delivery)) && isDue(delivery, now)) start(delivery.id, each => this.#target(each))
  }

  /** A message whose record has expired is sent again: not while the incident is acknowledged. One that nobody has got is. */
  async #extendRetention(began: OperatorDelivery | undefined): Promise<void> {
    const { store, clock } = this.#options
    const now = clock.now()
    if (began?.state !== 'delivered' || began.expires > now + deliveryRetentionMs / 2) return
    await replaceDelivery(store, { ...began, expires: now + deliveryRetentionMs })
  }

  #target({ channel, receiver = '' }: Delivery): DeliveryTarget {
    const { receivers, operatorUrl } = this.#options
    if (channel === 'email')
      return { kind: 'email', to: receiver, footer: operatorUrl === undefined ? [] : [`The operator’s page: ${operatorUrl}`] }
    const found = receivers.webhooks[receiver]
    if (found === undefined) return { kind: 'none', why: 'gateway.yaml has no such webhook any more' }
    return { kind: 'webhook', webhook: operatorTarget(receiver, found) }
  }
}

/** The operator has chosen the address. The salt is that of deriveOperatorKey(). */
export const operatorTarget = (name: string, { url, format }: Pick<OperatorWebhook, 'url' | 'format'>): WebhookTarget => ({
  account: operatorsId,
  webhook: { url: url.reveal(), format, salt: name },
  isAllowed: () => true,
})

const severityOf = ({ severity }: OperatorWebhook) => severity !== undefined && { severity }

const wants = ({ severity }: OperatorReceiver, incident: Pick<SharedIncident, 'severity'>): boolean =>
  severity === 'warning' || incident.severity === 'critical'

const isFor = ({ channel, receiver }: Pick<OperatorReceiver, 'channel' | 'receiver'>, delivery: OperatorDelivery): boolean =>
  delivery.channel === channel && delivery.receiver === receiver

/** A node that comes and goes does not fill a mailbox. */
const hasReachedLimit = (known: readonly OperatorDelivery[], began: OperatorDelivery): boolean => {
  const told = known.filter(
    each => isFor(began, each) && each.message.type === 'incident.began' && each.created > began.created - deliveryRetentionMs,
  )
  const isSame = ({ message }: OperatorDelivery): boolean => keyOf(message.data) === keyOf(began.message.data)
  const warnings = told.filter(({ message }) => message.data.severity === 'warning')
  return told.filter(isSame).length >= maxOfIncident || (began.message.data.severity === 'warning' && warnings.length >= maxWarnings)
}

const keyOf = ({ network, node, kind, class: methodClass }: Pick<OperatorAlert['data'], 'network' | 'node' | 'kind' | 'class'>): string =>
  [network, node, kind, methodClass].join(' ')

/** There is one of each id: so a message is sent once, whichever gateways see the incident. */
const newDelivery = ({ channel, receiver = '' }: OperatorReceiver, alert: OperatorAlert, now: number): OperatorDelivery => ({
  id: [operatorsId, alert.type, keyOf(alert.data), alert.data.began, channel, receiver].join(' '),
  account: operatorsId,
  channel,
  receiver,
  message: { ...alert, timestamp: isoTime(now) },
  state: 'pending',
  attempts: 0,
  created: now,
  nextAttempt: now,
  lastAttempt: undefined,
  lastStatus: undefined,
  expires: now + deliveryRetentionMs,
})
