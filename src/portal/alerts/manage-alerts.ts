import { isDeepStrictEqual } from 'node:util'
import type { Secret } from '../../plugin/secret.ts'
import type { RecordStore } from '../../store/record-store.ts'
import { isoTime, isoTimeOrNull } from '../../util/dates.ts'
import type { Json } from '../../util/json.ts'
import { invalidField } from '../api-errors.ts'
import { checkKnown } from '../key-settings.ts'
import { findPerson, listVerifiedOwners } from '../people/people.ts'
import { readSigningKey } from '../signing-key.ts'
import { count, countOrNull, flag, listOf, number, object, text, textOrNull, time, timeOrNull } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { maxThresholds, newWebhook, readAlertSettings, editAlertSettings } from './alert-settings.ts'
import type { AlertSettings } from './alert-settings.ts'
import { alertTypes, deliveryChannels, deliveryStates, incidentTypes, listDeliveries } from './delivery-records.ts'
import type { AccountDelivery, AlertMessage, CreditsAlert } from './delivery-records.ts'
import { endChangedIncidents, lastingIncidents } from './incidents.ts'
import { describeKey, webhookFormats } from './message-format.ts'
import type { WebhookFormat } from './message-format.ts'
import { isWebhookUrl } from './webhook-request.ts'
import { deriveKey, formatKey } from './webhook-signature.ts'
import type { ChangeServices } from '../record-services.ts'

const thresholdList = (description: string) =>
  ({ type: 'array', items: { type: 'integer', minimum: 1, maximum: 100 }, maxItems: maxThresholds, description }) as const

/** Of a host name (RFC 1035): longer names of networks are not sensible. */
const maxNetworkChars = 253
const maxAlertedNetworks = 1_000
const maxLatencyMs = 60_000
const maxWindowMinutes = 60

/** What owners and operators can say of alerts. */
export const alertProperties = {
  daily: thresholdList('Percent of the credits of a day at which an alert is sent, each once a day; none when it is empty.'),
  monthly: thresholdList('Percent of the daily credits of all days of a month at which an alert is sent, each once a month.'),
  keyDaily: thresholdList(
    'Percent of the daily limit of an API key that has one at which an alert is sent, each once a day for each key; none when it is empty.',
  ),
  errorRate: {
    type: 'integer',
    minimum: 0,
    maximum: 100,
    description: 'Percent of the calls of the window that fail at which an alert is sent, once until that has ended; none for 0.',
  },
  latency: {
    type: 'integer',
    minimum: 0,
    maximum: maxLatencyMs,
    description: 'The p95 of the latency of successful calls of the window, in ms, at which an alert is sent; none for 0.',
  },
  window: {
    type: 'integer',
    minimum: 5,
    maximum: maxWindowMinutes,
    description: 'Minutes up to now of which error rate and latency are.',
  },
  minCalls: {
    type: 'integer',
    minimum: 10,
    maximum: 1_000_000,
    description: 'Of fewer calls in the window, no alert on error rate or latency is sent.',
  },
  networks: {
    type: 'array',
    items: { type: 'string', maxLength: maxNetworkChars },
    maxItems: maxAlertedNetworks,
    uniqueItems: true,
    description: 'Names of networks of whose outages a message is sent when they begin and when they have ended; of none when it is empty.',
  },
  email: { type: 'boolean', description: 'Whether the owners of the account who have confirmed their e-mail addresses get mail.' },
} as const

export const webhookFormat = {
  type: 'string',
  enum: webhookFormats,
  description:
    'What messages are: `standard` is JSON for programs, `slack` a text as the incoming webhooks of Slack and Mattermost take it. `standard` if absent.',
} as const

export const maxWebhookUrlChars = 2_000

/** Throws ApiError for a URL that no webhook can have. It may hold a secret: the message does not quote it. */
export const checkWebhookUrl = (field: string, url: string, alternative = ''): void => {
  if (!isWebhookUrl(url))
    throw invalidField(field, `must be a URL such as https://example.org/hook, without user and password${alternative}`)
}

export type AlertChange = { readonly [Name in keyof typeof alertProperties]?: AlertSettings[Name] } & {
  /** A URL, in place of the webhook before; null removes that. */
  readonly webhook?: string | null
  /** Of that webhook; `standard` unless given. */
  readonly format?: WebhookFormat | undefined
}

interface AlertServices extends Pick<ChangeServices, 'store' | 'accounts'> {
  readonly portalSecret: Secret | undefined
  /** Whether the gateway has a mail server. */
  readonly canMail: boolean
  /** Of which there can be alerts. */
  readonly knownNetworks: readonly string[]
}

const maxShownDeliveries = 50

/** The settings and what was sent, as the API shows them. */
export const alertsJson = async (store: RecordStore, account: string) => {
  const found = await readAlertSettings(store, account)
  const { account: _, webhook, ...settings } = found
  const deliveries = [...(await listDeliveries(store, account))].sort((a, b) => b.created - a.created).slice(0, maxShownDeliveries)
  return {
    ...settings,
    webhook: webhook === undefined ? null : { url: webhook.url, format: webhook.format ?? 'standard' },
    incidents: await lastingIncidents(store, found),
    mailReceivers: (await listVerifiedOwners(store, account)).map(({ name }) => name),
    deliveries: await Promise.all(deliveries.map(delivery => deliveryJson(store, delivery))),
  }
}

export type AlertsJson = Awaited<ReturnType<typeof alertsJson>>

const deliveryJson = async (store: RecordStore, delivery: AccountDelivery) => {
  const { channel, person, state, attempts, created, nextAttempt, lastAttempt, lastStatus = null, message } = delivery
  return {
    ...alertJson(message),
    channel,
    state,
    attempts,
    lastStatus,
    person: person === undefined ? null : ((await findPerson(store, person))?.name ?? null),
    created: isoTime(created),
    lastAttempt: isoTimeOrNull(lastAttempt),
    nextAttempt: state === 'pending' ? isoTime(nextAttempt) : null,
  }
}

/** Which threshold was reached, or which network has an outage, and when. */
export const alertJson = ({ type, data }: AlertMessage): AlertJson => {
  switch (type) {
    case 'credits.threshold':
      return { type, period: data.period, date: data.date, threshold: data.threshold, key: nameOfKey(data.key), network: null }
    case 'errors.threshold':
    case 'latency.threshold':
      return { type, period: null, date: data.since, threshold: data.threshold, key: null, network: null }
    case 'incident.began':
    case 'incident.ended':
      return { type, period: null, date: data.ended ?? data.began, threshold: null, key: null, network: data.network }
  }
}

/** `indexer …7maA`. */
const nameOfKey = (key: CreditsAlert['key']): string | null => (key === undefined ? null : describeKey(key))

/** Changes the members that are named. Resolves with the secret of a new webhook. Rejects with ApiError. */
export const changeAlerts = async (
  { store, accounts, portalSecret, canMail, knownNetworks }: AlertServices,
  account: string,
  { daily, monthly, keyDaily, webhook: url, format, ...change }: AlertChange,
): Promise<Secret | undefined> => {
  if (change.email === true && !canMail)
    throw invalidField('email', 'cannot be set: this gateway has no mail server (`portal.smtp` in gateway.yaml)')
  const webhook = typeof url === 'string' ? newWebhook(url, format) : undefined
  const { before, after } = await editAlertSettings(store, account, settings => {
    // One that the gateway has no more may stay.
    checkKnown('network', change.networks, [...knownNetworks, ...settings.networks])
    return {
      ...settings,
      ...change,
      ...(daily !== undefined && { daily: ascending(daily) }),
      ...(monthly !== undefined && { monthly: ascending(monthly) }),
      ...(keyDaily !== undefined && { keyDaily: ascending(keyDaily) }),
      ...(url !== undefined && { webhook }),
    }
  })
  await endChangedIncidents(store, { before, after })
  if (!isDeepStrictEqual(before, after)) await accounts.recordOf(account, { action: 'alerts-changed', ...differenceOf(before, after) })
  if (webhook === undefined) return undefined
  const signingKey = await readSigningKey(store, portalSecret, 'webhooks')
  return formatKey(deriveKey(signingKey, account, webhook))
}

const ascending = (thresholds: readonly number[]): readonly number[] => [...new Set(thresholds)].sort((a, b) => a - b)

/** For the log of changes: a webhook with the same origin and another path is another one. */
const differenceOf = (before: AlertSettings, after: AlertSettings) => {
  const [was, is] = [toRecord(before), toRecord(after)]
  const isOther = (name: string): boolean =>
    !isDeepStrictEqual(was[name], is[name]) || (name === 'webhook' && !isDeepStrictEqual(before.webhook, after.webhook))
  const othersOf = (record: typeof was) => Object.fromEntries(Object.entries(record).filter(([name]) => isOther(name)))
  return { before: othersOf(was), after: othersOf(is) }
}

/** The path of a URL may be a secret. */
const toRecord = ({ account: _, webhook, ...settings }: AlertSettings): Readonly<Record<string, Json>> => ({
  webhook: webhook === undefined ? null : new URL(webhook.url).origin,
  ...(webhook?.format !== undefined && { format: webhook.format }),
  ...settings,
})

/** What alertJson() returns. */
export const alertShape = {
  type: { type: 'string', enum: alertTypes },
  period: { type: ['string', 'null'], enum: ['day', 'month', null], description: 'Of credits.' },
  date: {
    ...text,
    description:
      'The day or month of the credits; of error rate, latency and outages, when the incident began; of `incident.ended`, when it ended.',
  },
  threshold: { ...countOrNull, description: 'Percent; of latency, ms; null of an outage.' },
  key: { ...textOrNull, description: 'The API key whose daily limit it is about, by name and last characters; null of other alerts.' },
  network: { ...textOrNull, description: 'That has an outage; null of other alerts.' },
} as const

type AlertJson = { readonly [Name in keyof typeof alertShape]: JsonOf<(typeof alertShape)[Name]> }

const deliverySchema = object({
  ...alertShape,
  channel: { type: 'string', enum: deliveryChannels },
  person: textOrNull,
  state: { type: 'string', enum: deliveryStates },
  attempts: count,
  created: time,
  lastAttempt: timeOrNull,
  lastStatus: textOrNull,
  nextAttempt: timeOrNull,
})

/** What alertsJson() returns. */
export const alertsShape = {
  webhook: { ...object({ url: text, format: { type: 'string', enum: webhookFormats } }), type: ['object', 'null'] },
  email: flag,
  daily: listOf(count),
  monthly: listOf(count),
  keyDaily: listOf(count),
  errorRate: count,
  latency: count,
  window: count,
  minCalls: count,
  networks: listOf(text),
  incidents: {
    ...listOf(
      object({
        type: { type: 'string', enum: incidentTypes },
        since: time,
        window: count,
        calls: count,
        value: { ...number, description: 'When it began.' },
        threshold: count,
      }),
    ),
    description: 'What was reported of error rate and latency and has not ended.',
  },
  mailReceivers: { ...listOf(text), description: 'The owners whom mail goes to, if `email` is true: those with a confirmed address.' },
  deliveries: { ...listOf(deliverySchema), description: 'What was sent in the last days, the newest first.' },
} as const

/** How an attempt to send a test message ended. */
export const webhookTestSchema = object({ isDelivered: flag, status: text })
