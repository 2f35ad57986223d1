import { isoTime } from '../../util/dates.ts'
import type { SendMail } from '../mail/mailer.ts'
import { randomId } from '../people/random-tokens.ts'
import { mailOutcome } from './delivery-attempts.ts'
import { describeTest, formatMessage } from './message-format.ts'
import { operatorTarget } from './operator-alerts.ts'
import type { OperatorReceivers } from './operator-alerts.ts'
import { sendWebhookMessage } from './webhook-message.ts'
import type { WebhookTester } from './webhook-message.ts'

interface OperatorAlertTester extends Omit<WebhookTester, 'allowedSubnets'> {
  /** Undefined without a mail server. */
  readonly sendMail: SendMail | undefined
}

/** Sends a test message to each receiver, once; resolves with how each ended. Rejects where the store fails. */
export const testOperatorAlerts = async (sender: OperatorAlertTester, { mail, webhooks }: Pick<OperatorReceivers, 'mail' | 'webhooks'>) => {
  const { clock, brand, sendMail } = sender
  const text = describeTest('operators', brand)
  const message = { type: 'test', timestamp: isoTime(clock.now()), data: {} } as const
  return Promise.all([
    ...mail.map(async receiver => {
      const isSent = await sendMail?.({ to: receiver, subject: text, text: `${text}\n` })
      return { channel: 'email' as const, receiver, ...mailOutcome(isSent === true) }
    }),
    ...Object.entries(webhooks).map(async ([receiver, webhook]) => {
      const body = formatMessage(webhook, message, brand)
      const outcome = await sendWebhookMessage(
        sender,
        operatorTarget(receiver, webhook),
        { id: randomId('msg_'), body },
        new AbortController().signal,
      )
      return { channel: 'webhook' as const, receiver, ...outcome }
    }),
  ])
}
