import {
  alertProperties,
  alertsJson,
  alertsShape,
  changeAlerts,
  checkWebhookUrl,
  maxWebhookUrlChars,
  webhookFormat,
  webhookTestSchema,
} from '../alerts/manage-alerts.ts'
import type { AlertsJson } from '../alerts/manage-alerts.ts'
import { deliveryChannels, deliveryStates } from '../alerts/delivery-records.ts'
import { describeReceivers } from '../alerts/operator-receivers.ts'
import { testOperatorAlerts } from '../alerts/operator-test-messages.ts'
import { testWebhook } from '../alerts/webhook-message.ts'
import { invalidField } from '../api-errors.ts'
import { problemSeverities } from '../../services/plugin-problems.ts'
import { flag, listOf, object, schemaRef, text, textOrNull, time } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { noAlertReceivers } from '../state-labels.ts'
import { accountId, findAccount, onlyId } from './account-operations.ts'
import { defineOperation } from './operation.ts'
import type { OperationServices, TextBlock } from './operation.ts'

/** In place of thresholds or of a URL. */
const noneKeyword = 'none'

const shape = {
  ...alertsShape,
  enabled: { ...flag, description: 'Whether alerts are sent: gateways with `listen.portal` send them.' },
} as const

const receiver = { ...text, description: 'The address, or the name of the webhook.' } as const

/** What the operations return, by the name in the OpenAPI document. */
export const alertSchemas = {
  Alerts: object(shape),
  ChangedAlerts: object({
    ...shape,
    secret: { ...textOrNull, description: 'Of a webhook that was set: checks the signatures of messages. It is not shown again.' },
  }),
  WebhookTest: webhookTestSchema,
  Receivers: object({
    enabled: shape.enabled,
    receivers: listOf(
      object({
        channel: { type: 'string', enum: deliveryChannels },
        receiver,
        severity: { type: 'string', enum: problemSeverities, description: 'The least one that it is told of.' },
        last: {
          oneOf: [
            object({
              text,
              state: { type: 'string', enum: deliveryStates },
              created: time,
              lastStatus: { ...textOrNull, description: 'How the last attempt ended.' },
            }),
            { type: 'null' },
          ],
          description: 'What it was sent last, in the last 24 hours.',
        },
      }),
    ),
  }),
  ReceiverTests: object({
    tests: listOf(
      object({
        channel: { type: 'string', enum: deliveryChannels },
        receiver,
        isDelivered: flag,
        status: text,
      }),
    ),
  }),
} as const

export type ReceiversJson = JsonOf<typeof alertSchemas.Receivers>

export type ReceiverTestsJson = JsonOf<typeof alertSchemas.ReceiverTests>

const readAlerts = async ({ store, config }: OperationServices, account: string) => ({
  ...(await alertsJson(store, account)),
  enabled: config.listen.portal !== undefined,
})

type OperatorAlertsJson = Awaited<ReturnType<typeof readAlerts>>

export const alertOperations = [
  defineOperation({
    name: 'alerts show',
    method: 'get',
    path: '/accounts/{id}/alerts',
    summary:
      'Who is told when the account has used a share of its credits, has failed or slow calls, or a network does not answer, and what was sent.',
    input: onlyId,
    output: schemaRef('Alerts'),
    run: async (input, services) => readAlerts(services, (await findAccount(services, input.id)).id),
    command: { positionals: { id: 'NAME' }, text: alerts => formatAlerts(alerts) },
  }),
  defineOperation({
    name: 'alerts set',
    method: 'patch',
    path: '/accounts/{id}/alerts',
    summary: 'Changes the thresholds, the networks, the webhook, or whether owners get mail.',
    input: {
      type: 'object',
      properties: {
        id: accountId,
        ...alertProperties,
        webhook: {
          type: 'string',
          maxLength: maxWebhookUrlChars,
          description:
            'The URL that messages are sent to, in place of the webhook before: http or https, with a public address. Its secret is ' +
            `shown once, in the response. \`${noneKeyword}\` removes the webhook.`,
        },
        format: webhookFormat,
      },
      required: ['id'],
    },
    output: schemaRef('ChangedAlerts'),
    check({ webhook, format }) {
      if (format !== undefined && (webhook === undefined || webhook === noneKeyword)) throw invalidField('format', 'requires a webhook')
      if (webhook !== undefined && webhook !== noneKeyword) checkWebhookUrl('webhook', webhook, `, or \`${noneKeyword}\``)
    },
    async run({ id: idOrName, webhook, ...change }, services) {
      const { id } = await findAccount(services, idOrName)
      const { secret: portalSecret, smtp } = services.config.portal
      const knownNetworks = change.networks === undefined ? [] : await services.networkNames()
      const secret = await changeAlerts({ ...services, portalSecret, canMail: smtp !== undefined, knownNetworks }, id, {
        ...change,
        ...(webhook !== undefined && { webhook: webhook === noneKeyword ? null : webhook }),
      })
      return { ...(await readAlerts(services, id)), secret: secret?.reveal() ?? null }
    },
    command: {
      positionals: { id: 'NAME' },
      flags: {
        daily: { keyword: noneKeyword },
        monthly: { keyword: noneKeyword },
        keyDaily: { name: 'key-daily', keyword: noneKeyword },
        errorRate: { name: 'error-rate', keyword: noneKeyword },
        latency: { keyword: noneKeyword },
        minCalls: { name: 'min-calls' },
        networks: { keyword: noneKeyword },
        webhook: { placeholder: 'URL', keyword: noneKeyword },
        format: { of: 'webhook' },
      },
      text: ({ secret, ...alerts }) => [
        ...formatAlerts(alerts),
        ...(secret === null
          ? []
          : ['The secret of the webhook, with which its receiver checks signatures (it is not shown again):', secret]),
      ],
    },
  }),
  defineOperation({
    name: 'alerts test',
    method: 'post',
    path: '/accounts/{id}/alerts/test',
    summary: 'Sends a message of the type `test` to the webhook of the account, and says how that ended.',
    input: onlyId,
    output: schemaRef('WebhookTest'),
    async run(input, services) {
      const { secret: portalSecret, webhooks, brand } = services.config.portal
      return testWebhook({ ...services, portalSecret, brand, allowedSubnets: webhooks.allow }, await findAccount(services, input.id))
    },
    command: {
      positionals: { id: 'NAME' },
      text: ({ status }) => [`the webhook took the test message: ${status}`],
      failure: ({ isDelivered, status }) => (isDelivered ? undefined : `the test message was not delivered: ${status}`),
    },
  }),
  defineOperation({
    name: 'alerts operators',
    method: 'get',
    path: '/operator-alerts',
    operationId: 'listOperatorReceivers',
    summary: 'The receivers of `portal.operatorAlerts`, and what became of the last message to each.',
    input: { type: 'object', properties: {} },
    output: schemaRef('Receivers'),
    async run(_input, { store, config }): Promise<ReceiversJson> {
      const { brand, operatorAlerts } = config.portal
      const receivers = operatorAlerts === undefined ? [] : await describeReceivers(store, operatorAlerts, brand)
      return { enabled: config.listen.portal !== undefined, receivers }
    },
    command: {
      text: ({ enabled, receivers }) =>
        receivers.length === 0
          ? [noAlertReceivers]
          : [
              ...(enabled ? [] : [notEnabled]),
              {
                columns: ['TO', 'RECEIVER', 'FROM', 'LAST MESSAGE', 'STATE', 'TIME'],
                rows: receivers.map(({ channel, receiver, severity, last }) => [
                  ...[channel, receiver, severity, last?.text ?? '-'],
                  ...[last === null ? '-' : [last.state, last.lastStatus].filter(Boolean).join(': '), last?.created.slice(0, 19) ?? '-'],
                ]),
              },
            ],
    },
  }),
  defineOperation({
    name: 'alerts test-operators',
    method: 'post',
    path: '/operator-alerts/test',
    summary: 'Sends a test message to each receiver of `portal.operatorAlerts`, and says how that ended.',
    input: { type: 'object', properties: {} },
    output: schemaRef('ReceiverTests'),
    async run(_input, services): Promise<ReceiverTestsJson> {
      const { secret: portalSecret, brand, operatorAlerts } = services.config.portal
      const tests = operatorAlerts === undefined ? [] : await testOperatorAlerts({ ...services, portalSecret, brand }, operatorAlerts)
      return { tests }
    },
    command: {
      text: ({ tests }) => (tests.length === 0 ? [noAlertReceivers] : [testTable(tests)]),
      failure: ({ tests }) => {
        const failed = tests.filter(({ isDelivered }) => !isDelivered)
        return failed.length === 0
          ? undefined
          : `not delivered: ${failed.map(({ receiver, status }) => `${receiver} (${status})`).join(', ')}`
      },
    },
  }),
]

const notEnabled = 'No alerts are sent: gateways with this configuration have no dashboard; set `listen.portal` in gateway.yaml.'

const testTable = (tests: ReceiverTestsJson['tests']) => ({
  columns: ['TO', 'RECEIVER', 'RESULT'],
  rows: tests.map(({ channel, receiver, status }) => [channel, receiver, status]),
})

const formatAlerts = ({ webhook, email, daily, monthly, ...alerts }: OperatorAlertsJson): readonly TextBlock[] => {
  const { keyDaily, errorRate, latency, window, minCalls, networks, incidents, mailReceivers, deliveries, enabled } = alerts
  const ofWindow = `of ${window} min with at least ${minCalls} calls`
  const receivers = mailReceivers.length === 0 ? 'no owner has a confirmed address' : mailReceivers.join(', ')
  return [
    {
      fields: {
        daily: formatThresholds(daily),
        monthly: formatThresholds(monthly),
        'keys, daily': formatThresholds(keyDaily),
        'error rate': errorRate === 0 ? noneKeyword : `${errorRate} % ${ofWindow}`,
        latency: latency === 0 ? noneKeyword : `p95 of ${latency} ms ${ofWindow}`,
        networks: networks.length === 0 ? noneKeyword : networks.join(', '),
        email: email ? `on (${receivers})` : 'off',
        webhook: webhook === null ? noneKeyword : `${webhook.url}${webhook.format === 'standard' ? '' : ` (${webhook.format})`}`,
      },
    },
    ...(enabled ? [] : [notEnabled]),
    ...incidents.map(
      each => `Since ${each.since}: ${each.type === 'errors.threshold' ? `${each.value} % failed calls` : `p95 ${each.value} ms`}`,
    ),
    ...(deliveries.length === 0 ? [] : ['', { columns: ['OF', 'ALERT', 'TO', 'STATE', 'LAST RESULT'], rows: deliveries.map(toCells) }]),
  ]
}

const formatThresholds = (thresholds: readonly number[]): string =>
  thresholds.length === 0 ? noneKeyword : thresholds.map(each => `${each} %`).join(', ')

const toCells = ({ date, channel, person, state, lastStatus, ...alert }: AlertsJson['deliveries'][number]): readonly string[] => [
  ...[date, formatAlert(alert), person ?? channel, state],
  lastStatus ?? '',
]

const formatAlert = ({
  type,
  threshold,
  key,
  network,
}: Pick<AlertsJson['deliveries'][number], 'type' | 'threshold' | 'key' | 'network'>): string => {
  switch (type) {
    case 'credits.threshold':
      return key === null ? `${threshold} %` : `${threshold} % of the key ${key}`
    case 'errors.threshold':
      return `${threshold} % failed`
    case 'latency.threshold':
      return `p95 ${threshold} ms`
    case 'incident.began':
      return `outage of ${network}`
    case 'incident.ended':
      return `${network} is back`
  }
}
