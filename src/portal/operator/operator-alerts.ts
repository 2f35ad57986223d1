import { alertProperties, alertsJson, changeAlerts, removeWebhook, setWebhook, webhookProperties } from '../alerts/manage-alerts.ts'
import { schemaRef } from '../openapi.ts'
import { findAccount } from '../operations/account-operations.ts'
import { defineOperatorRoute } from './operator-route.ts'

/** The alerts of an account; `{id}` is an id or a name. */
export const operatorAlertRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/accounts/{id}/alerts',
    summary: 'Who is told when the account has used a share of its credits, and what was sent.',
    response: schemaRef('Alerts'),
    handle: async ({ params }, services) => alertsJson(services.store, (await findAccount(services, params['id'] ?? '')).id),
  }),
  defineOperatorRoute({
    method: 'patch',
    path: '/accounts/{id}/alerts',
    summary: 'Changes the thresholds, or whether owners get mail.',
    body: { type: 'object', properties: alertProperties },
    response: schemaRef('Alerts'),
    async handle({ params, body }, services) {
      const { id } = await findAccount(services, params['id'] ?? '')
      await changeAlerts(services, id, body)
      return alertsJson(services.store, id)
    },
  }),
  defineOperatorRoute({
    method: 'post',
    path: '/accounts/{id}/alerts/webhook',
    summary: 'Sets the webhook, in place of the one before. The response is the only place where its secret is shown.',
    body: { type: 'object', properties: webhookProperties, required: ['url'] },
    status: 201,
    response: schemaRef('NewWebhook'),
    async handle({ params, body: { url } }, services) {
      const { id } = await findAccount(services, params['id'] ?? '')
      const secret = await setWebhook(services, id, url)
      return { url, secret: secret.reveal() }
    },
  }),
  defineOperatorRoute({
    method: 'post',
    path: '/accounts/{id}/alerts/webhook/remove',
    summary: 'Removes the webhook.',
    response: schemaRef('Alerts'),
    async handle({ params }, services) {
      const { id } = await findAccount(services, params['id'] ?? '')
      await removeWebhook(services, id)
      return alertsJson(services.store, id)
    },
  }),
]
