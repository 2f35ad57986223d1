import { count, flag, listOf, object, text, textOrNull, time, timeOrNull } from '../openapi.ts'
import { deliveryChannels } from './delivery.ts'

const delivery = object({
  type: text,
  period: { type: 'string', enum: ['day', 'month'] },
  date: text,
  threshold: count,
  channel: { type: 'string', enum: deliveryChannels },
  person: textOrNull,
  state: { type: 'string', enum: ['pending', 'delivered', 'failed'] },
  attempts: count,
  created: time,
  lastAttempt: timeOrNull,
  lastStatus: textOrNull,
  nextAttempt: timeOrNull,
})

/** What routes about alerts return, to owners and to the operator. */
export const alertSchemas = {
  Alerts: object({
    webhook: { ...object({ url: text }), type: ['object', 'null'] },
    email: flag,
    daily: listOf(count),
    monthly: listOf(count),
    mailReceivers: { ...listOf(text), description: 'The owners whom mail goes to, if `email` is true: those with a confirmed address.' },
    deliveries: { ...listOf(delivery), description: 'What was sent in the last days, the newest first.' },
  }),
  NewWebhook: object({ url: text, secret: { type: 'string', description: 'Checks the signatures of messages. It is not shown again.' } }),
} as const
