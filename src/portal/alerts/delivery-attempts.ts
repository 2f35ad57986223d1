import { setMaxListeners } from 'node:events'
import type { Log } from '../../services/log.ts'
import { metricDefinitions } from '../../services/metric-definitions.ts'
import type { Metrics } from '../../services/metrics.ts'
import { backoffDelayMs, isAttemptDue, withTimeoutOr } from '../../util/async.ts'
import type { MaybePromise } from '../../util/async.ts'
import { hourMs, isoTime } from '../../util/dates.ts'
import type { Brand } from '../brand.ts'
import type { Mail, SendMail } from '../mail/mailer.ts'
import { tryLock } from '../concurrent-changes.ts'
import { deliveryChannels, deliveryLockTtlMs, deliveryRetryDelays, findDelivery, messageId, replaceDelivery } from './delivery-records.ts'
import type { Delivery, DeliveryChannel } from './delivery-records.ts'
import { describeAlert, formatMessage, summarizeAlert } from './message-format.ts'
import { sendWebhookMessage } from './webhook-message.ts'
import type { WebhookSender, WebhookTarget } from './webhook-message.ts'
import type { DeliveryOutcome } from './webhook-request.ts'
import { operatorsId } from './webhook-signature.ts'

export interface DelivererOptions extends WebhookSender {
  readonly log: Log
  readonly metrics: Metrics
  /** Undefined without a mail server. */
  readonly sendMail: SendMail | undefined
  readonly portalUrl: string
  readonly brand?: Pick<Brand, 'name'> | undefined
}

/** Where a delivery goes. */
export type DeliveryTarget =
  | { readonly kind: 'webhook'; readonly webhook: WebhookTarget }
  /** `footer`: the last lines of the mail. */
  | { readonly kind: 'email'; readonly to: string; readonly footer: readonly string[] }
  /** Nowhere any more, and why. */
  | { readonly kind: 'none'; readonly why: string }

export type FindTarget = (delivery: Delivery) => MaybePromise<DeliveryTarget>

const mailTimeoutMs = 60_000
/** A gateway that stops gives the mail server so long to accept mail: its leases and the use of credits are stored after that. */
const mailStopTimeoutMs = 2_000

const maxDeliveryAgeMs = 24 * hourMs

/** Sends what is due: one gateway at a time, and again after failures, for a day. */
export class Deliverer {
  readonly #options: DelivererOptions
  readonly #stopping = new AbortController()

  constructor(options: DelivererOptions) {
    this.#options = options
    // Each delivery in flight listens.
    setMaxListeners(Infinity, this.#stopping.signal)
    // From 0 on: increase() of Prometheus does not count what a counter begins with.
    for (const recipient of ['account', 'operators'] as const)
      for (const channel of deliveryChannels) this.#attempts(recipient, channel, 'failed')
  }

  /** Aborts requests in flight, and mail soon after; their deliveries stay pending. */
  stop(): void {
    this.#stopping.abort()
  }

  /** Attempts a delivery that is pending and due, or gives it up after a day, unless another gateway does. Rejects where the store fails. */
  async attempt(id: string, findTarget: FindTarget): Promise<void> {
    const { store, clock } = this.#options
    const release = await tryLock(this.#options, `delivery ${id}`, deliveryLockTtlMs)
    if (release === undefined) return
    const delivery = await findDelivery(store, id)
    if (delivery !== undefined && isDue(delivery, clock.now())) {
      // It may have had no receiver since, and have another one now.
      const isLate = clock.now() > delivery.created + maxDeliveryAgeMs
      const outcome = isLate ? undefined : await this.#send(delivery, await findTarget(delivery))
      // Where the outcome cannot be stored, the lock stays too: a delivery is not repeated at once.
      if (outcome === undefined) await replaceDelivery(store, this.#giveUp(delivery))
      else if (!this.#stopping.signal.aborted || outcome.isDelivered) await replaceDelivery(store, this.#record(delivery, outcome))
    }
    await release()
  }

  async #send(delivery: Delivery, target: DeliveryTarget): Promise<DeliveryOutcome> {
    const { brand } = this.#options
    if (target.kind === 'none') return { isDelivered: false, status: target.why }
    if (target.kind === 'email') return this.#mail(alertMail(delivery, target, this.#options))
    const message = { id: messageId(delivery), body: formatMessage(target.webhook.webhook, delivery.message, brand) }
    return sendWebhookMessage(this.#options, target.webhook, message, this.#stopping.signal)
  }

  async #mail(mail: Mail): Promise<DeliveryOutcome> {
    const { sendMail, clock } = this.#options
    if (sendMail === undefined) return { isDelivered: false, status: 'there is no mail server any more' }
    return mailOutcome(await this.#untilStopped(withTimeoutOr(clock, mailTimeoutMs, sendMail(mail), () => false)))
  }

  /** False when the gateway stops before the mail server has answered. */
  async #untilStopped(sent: Promise<boolean>): Promise<boolean> {
    const { signal } = this.#stopping
    let giveUp = (): void => undefined
    const stopped = new Promise<boolean>(resolve => {
      giveUp = () => void this.#options.clock.after(mailStopTimeoutMs, () => resolve(false))
    })
    signal.addEventListener('abort', giveUp, { once: true })
    if (signal.aborted) giveUp()
    try {
      return await Promise.race([sent, stopped])
    } finally {
      signal.removeEventListener('abort', giveUp)
    }
  }

  #attempts(recipient: 'account' | 'operators', channel: DeliveryChannel, result: 'delivered' | 'retried' | 'failed') {
    return this.#options.metrics.counter(metricDefinitions.alertDeliveries, { recipient, channel, result })
  }

  /** The delivery after this attempt. */
  #record(delivery: Delivery, { isDelivered, status }: DeliveryOutcome): Delivery {
    const now = this.#options.clock.now()
    const attempts = delivery.attempts + 1
    const nextAttempt = now + backoffDelayMs(deliveryRetryDelays, attempts)
    const attempted = { ...delivery, attempts, nextAttempt, lastAttempt: now, lastStatus: status }
    if (!isDelivered && nextAttempt > delivery.created + maxDeliveryAgeMs) return this.#giveUp(attempted)
    this.#attempts(recipientOf(delivery), delivery.channel, isDelivered ? 'delivered' : 'retried').add()
    return isDelivered ? { ...attempted, state: 'delivered' } : attempted
  }

  #giveUp(delivery: Delivery): Delivery {
    const { account, channel, attempts, lastStatus: status, created } = delivery
    this.#attempts(recipientOf(delivery), channel, 'failed').add()
    this.#options.log.warn({ event: 'alert-undelivered', account, channel, attempts, status, since: isoTime(created) }, undelivered)
    return { ...delivery, state: 'failed' }
  }
}

export const mailOutcome = (isDelivered: boolean): DeliveryOutcome => ({
  isDelivered,
  status: isDelivered ? 'accepted by the mail server' : 'not accepted by the mail server',
})

const recipientOf = ({ account }: Delivery) => (account === operatorsId ? 'operators' : 'account')

const undelivered = 'alert could not be delivered within a day: its receiver is not told'

export const isDue = ({ state, nextAttempt }: Delivery, now: number): boolean =>
  state === 'pending' && isAttemptDue(deliveryRetryDelays, nextAttempt, now)

/** The mail of an alert. Its Message-ID is the same for each attempt. */
const alertMail = (
  delivery: Delivery,
  { to, footer }: DeliveryTarget & { readonly kind: 'email' },
  { portalUrl, brand }: Pick<DelivererOptions, 'portalUrl' | 'brand'>,
): Mail => ({
  to,
  messageId: `<${messageId(delivery)}@${new URL(portalUrl).hostname}>`,
  subject: summarizeAlert(delivery.message, brand),
  text: [...describeAlert(delivery.message), '', ...footer, ''].join('\n'),
})
