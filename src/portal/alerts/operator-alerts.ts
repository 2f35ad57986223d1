import type { Secret } from '../../plugin/secret.ts'
import type { ProblemSeverity } from '../../services/plugin-problems.ts'
import { neverExpires } from '../../store/record-store.ts'
import type { StoredRecord } from '../../store/record-store.ts'
import { dayMs, isoTime } from '../../util/dates.ts'
import { toJson } from '../../util/json.ts'
import type { IncidentLog } from '../portal-services.ts'
import type { RecordServices } from '../record-services.ts'
import { isDue } from './delivery-attempts.ts'
import type { DeliveryTarget, FindTarget } from './delivery-attempts.ts'
import { addDelivery, listOperatorDeliveries } from './delivery-records.ts'
import type { Delivery, OperatorAlert, OperatorDelivery } from './delivery-records.ts'
import type { WebhookFormat } from './message-format.ts'
import { operatorsId } from './webhook-signature.ts'

/** `portal.operatorAlerts` of gateway.yaml. */
export interface OperatorReceivers {
  readonly mail: readonly string[]
  /** The least one that is told. */
  readonly severity: ProblemSeverity
  readonly webhooks: Readonly<Record<string, OperatorWebhook>>
}

export interface OperatorWebhook {
  readonly url: Secret
  readonly format: WebhookFormat
  readonly severity?: ProblemSeverity
}

export interface OperatorAlertOptions extends RecordServices {
  readonly receivers: OperatorReceivers
  incidents(): Promise<Pick<IncidentLog, 'list'>>
  /** Of the operator's page, where it is known. */
  readonly operatorUrl: string | undefined
}

/** What one of the gateways sees, until `seen` has not been renewed for some time. */
interface SharedIncident extends Omit<OperatorAlert['data'], 'ended'> {
  /** In ms since 1970, when a gateway has seen it last. */
  readonly seen: number
}

/** What comes back within this time, at any gateway, has not ended. A gateway with many accounts reports every 60 s (maxRestMs of rounds). */
export const endedAfterMs = 120_000
/** Written anew no more often while an incident lasts. */
const renewIntervalMs = 20_000
/** Calls go to other nodes: what is over by then is told to nobody. */
export const warningDelayMs = 60_000

/** Beginnings of one incident that a receiver is told of in `deliveryRetentionMs`, and of all warnings together. */
export const maxOfIncident = 10
export const maxWarnings = 100

const deliveryRetentionMs = dayMs

type OperatorReceiver = Pick<OperatorDelivery, 'channel' | 'receiver'> & { readonly severity: ProblemSeverity }

/**
 * Tells operators of incidents. Each gateway reports into the store what it sees; the one that does the round of alerts adds messages, so
 * that of several gateways that see the same, or see it in turns, one message is sent when it begins and one when no gateway sees it any more.
 */
export class OperatorAlerts {
  readonly #options: OperatorAlertOptions
  readonly #receivers: readonly OperatorReceiver[]
  #reportedAt: number
  /** Since when each report has reached the store. Before, others may have seen what they could not report either. */
  #reportsSince: number
  #hasFailed = false

  constructor(options: OperatorAlertOptions) {
    this.#options = options
    this.#reportedAt = options.clock.now()
    this.#reportsSince = this.#reportedAt
    const { mail, severity, webhooks } = options.receivers
    this.#receivers = [
      ...mail.map(receiver => ({ channel: 'email' as const, receiver, severity })),
      ...Object.entries(webhooks).map(([receiver, each]) => ({ channel: 'webhook' as const, receiver, severity, ...severityOf(each) })),
    ]
  }

  /** What this gateway sees; and what began and ended since it reported last, as while the store was unreachable. */
  async report(): Promise<void> {
    const { store, clock } = this.#options
    const incidents = (await this.#options.incidents()).list()
    const now = clock.now()
    if (this.#hasFailed || now - this.#reportedAt > endedAfterMs) this.#reportsSince = now
    this.#hasFailed = true
    // Also where there is nothing to report: that it can be reported is known then.
    const reported = new Map((await store.records('incident', operatorsId)).map(record => [record.id, record]))
    for (const { network, node = null, kind, class: methodClass, text, severity, began, ended } of incidents) {
      if (severity === 'info' || (ended ?? now) < this.#reportedAt) continue
      const seen = ended ?? now
      const id = [operatorsId, network, node, kind, methodClass].join(' ')
      const value: SharedIncident = { network, node, kind, class: methodClass, severity, text, began: isoTime(began), seen }
      const found = reported.get(id)
      // Where another gateway is quicker, it has seen the same.
      if (found === undefined) await store.addRecord('incident', { id, account: operatorsId, value: toJson(value), expires: neverExpires })
      else if (seen >= incidentOf(found).seen + (ended === undefined ? renewIntervalMs : 1))
        await store.replaceRecord('incident', found, toJson({ ...incidentOf(found), severity, seen }))
    }
    this.#reportedAt = now
    this.#hasFailed = false
  }

  /** Adds messages for what has begun and ended, and starts those that are due. For one gateway at a time. */
  async update(start: (id: string, findTarget: FindTarget) => void): Promise<void> {
    const { store, clock } = this.#options
    const now = clock.now()
    const known = new Map((await listOperatorDeliveries(store)).map(delivery => [delivery.id, delivery]))
    for (const record of await store.records('incident', operatorsId)) {
      const { seen, ...incident } = incidentOf(record)
      const hasEnded = now >= Math.max(seen, this.#reportsSince) + endedAfterMs
      const isTold = incident.severity === 'critical' || seen >= Date.parse(incident.began) + warningDelayMs
      const alert = (type: OperatorAlert['type'], ended: string | null): OperatorAlert => ({ type, data: { ...incident, ended } })
      let isToldAsEnded = false
      for (const receiver of isTold ? this.#receivers.filter(each => wants(each, incident)) : []) {
        const began = newDelivery(receiver, alert('incident.began', null), now)
        if (!known.has(began.id) && hasReachedLimit([...known.values()], began)) continue
        const ended = newDelivery(receiver, alert('incident.ended', isoTime(seen)), now)
        isToldAsEnded ||= !hasEnded && known.has(ended.id)
        for (const delivery of hasEnded ? [began, ended] : [began])
          if (!known.has(delivery.id) && (await addDelivery(store, delivery))) known.set(delivery.id, delivery)
      }
      if (hasEnded) await store.takeRecord('incident', record.id)
      // The gateway that sees it could not report for some time.
      else if (isToldAsEnded) await store.replaceRecord('incident', record, toJson({ ...incident, seen, began: isoTime(seen) }))
    }
    for (const delivery of known.values())
      if (this.#receivers.some(each => isFor(each, delivery)) && isDue(delivery, now)) start(delivery.id, each => this.#target(each))
  }

  #target({ channel, receiver = '' }: Delivery): DeliveryTarget {
    const { receivers, operatorUrl } = this.#options
    if (channel === 'email')
      return { kind: 'email', to: receiver, footer: operatorUrl === undefined ? [] : [`The operator’s page: ${operatorUrl}`] }
    const found = receivers.webhooks[receiver]
    if (found === undefined) return { kind: 'none', why: 'gateway.yaml has no such webhook any more' }
    const webhook = { url: found.url.reveal(), format: found.format, salt: receiver } // as deriveOperatorKey() has it
    // The operator has chosen the address.
    return { kind: 'webhook', webhook: { account: operatorsId, webhook, isAllowed: () => true } }
  }
}

const severityOf = ({ severity }: OperatorWebhook) => severity !== undefined && { severity }

const wants = ({ severity }: OperatorReceiver, incident: Pick<SharedIncident, 'severity'>): boolean =>
  severity === 'warning' || incident.severity === 'critical'

const isFor = ({ channel, receiver }: Pick<OperatorReceiver, 'channel' | 'receiver'>, delivery: OperatorDelivery): boolean =>
  delivery.channel === channel && delivery.receiver === receiver

/** A node that comes and goes does not fill a mailbox. */
const hasReachedLimit = (known: readonly OperatorDelivery[], began: OperatorDelivery): boolean => {
  const told = known.filter(each => isFor(began, each) && each.message.type === 'incident.began')
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

/** Written by report() alone. */
const incidentOf = ({ value }: StoredRecord): SharedIncident => value as unknown as SharedIncident
