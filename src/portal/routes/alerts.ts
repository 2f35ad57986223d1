import { readAlertSettings } from '../alerts/alert-settings.ts'
import { mailOutcome } from '../alerts/delivery-attempts.ts'
import { deliveryChannels } from '../alerts/delivery-records.ts'
import { alertProperties, alertsJson, changeAlerts, checkWebhookUrl, maxWebhookUrlChars, webhookFormat } from '../alerts/manage-alerts.ts'
import type { AlertChange } from '../alerts/manage-alerts.ts'
import { describeAccount, describeTest } from '../alerts/message-format.ts'
import { testWebhook } from '../alerts/webhook-message.ts'
import type { DeliveryOutcome } from '../alerts/webhook-request.ts'
import { ApiError } from '../api-errors.ts'
import { schemaRef } from '../response-schemas.ts'
import { listVerifiedOwners } from '../people/people.ts'
import type { Person } from '../people/people.ts'
import { accountOf, accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'

const alertsSchema = schemaRef('Alerts')

const changeOwnAlerts = (services: PortalServices, person: Person, change: AlertChange) =>
  changeAlerts(
    {
      ...services,
      accounts: accountsAs(services, person),
      canMail: services.sendMail !== undefined,
      knownNetworks: services.networks.map(({ name }) => name),
    },
    person.account,
    change,
  )

const testOwnWebhook = async (services: PortalServices, account: string): Promise<DeliveryOutcome> => {
  const { brand, webhooks, limits } = services
  const sender = { ...services, brand, allowedSubnets: webhooks?.allow ?? [] }
  return testWebhook(sender, await accountOf(services, account), () => limits.webhookTests.attempt(account))
}

/** To all who would get an alert now. */
const testMail = async (services: PortalServices, account: string): Promise<DeliveryOutcome> => {
  const { store, limits, sendMail, brand, url } = services
  if (sendMail === undefined) throw new ApiError(404, 'no-mail', 'this gateway sends no mail')
  const { email: isWanted } = await readAlertSettings(store, account)
  const receivers = isWanted ? await listVerifiedOwners(store, account) : []
  if (receivers.length === 0)
    throw new ApiError(409, 'no-receivers', 'no alert goes out by e-mail: turn that on, and confirm the address of an owner')
  limits.webhookTests.attempt(account)
  const subject = describeTest(describeAccount((await accountOf(services, account)).name), brand)
  const text = `Alerts of this account are sent to this address.\n\nOwners of the account change that here: ${url}/alerts\n`
  const sent = await Promise.all(receivers.map(({ email }) => sendMail({ to: email, subject, text })))
  return mailOutcome(sent.every(Boolean))
}

export const alertRoutes = [
  defineRoute({
    method: 'get',
    path: '/alerts',
    summary: 'Who is told when a share of the credits is used, calls fail or are slow, or a network does not answer, and what was sent.',
    role: 'owner',
    response: alertsSchema,
    handle: ({ person }, { store }) => alertsJson(store, person.account),
  }),
  defineRoute({
    method: 'patch',
    path: '/alerts',
    summary: 'Changes the thresholds, the networks, or whether owners get mail.',
    role: 'owner',
    body: { type: 'object', properties: alertProperties },
    response: alertsSchema,
    async handle({ person, body }, services) {
      await changeOwnAlerts(services, person, body)
      return alertsJson(services.store, person.account)
    },
  }),
  defineRoute({
    method: 'post',
    path: '/alerts/webhook',
    operationId: 'setWebhook',
    summary:
      'Sets the webhook, in place of the one before. The response is the only place where its secret is shown; messages are signed ' +
      'with it as https://www.standardwebhooks.com describes.',
    role: 'owner',
    body: {
      type: 'object',
      properties: {
        url: {
          type: 'string',
          maxLength: maxWebhookUrlChars,
          description: 'Where messages are sent: http or https, with a public address.',
        },
        format: webhookFormat,
      },
      required: ['url'],
    },
    status: 201,
    response: schemaRef('NewWebhook'),
    async handle({ person, body: { url, format } }, services) {
      checkWebhookUrl('url', url)
      const secret = await changeOwnAlerts(services, person, { webhook: url, format })
      return { url, secret: secret?.reveal() }
    },
  }),
  defineRoute({
    method: 'delete',
    path: '/alerts/webhook',
    operationId: 'deleteWebhook',
    summary: 'Removes the webhook.',
    role: 'owner',
    async handle({ person }, services) {
      await changeOwnAlerts(services, person, { webhook: null })
    },
  }),
  defineRoute({
    method: 'post',
    path: '/alerts/test',
    summary: 'Sends a test message to the webhook, or to the owners who get alerts by e-mail, and says how that ended.',
    role: 'owner',
    query: {
      type: 'object',
      properties: { channel: { type: 'string', enum: deliveryChannels, default: 'webhook', description: 'What is tested.' } },
    },
    response: schemaRef('WebhookTest'),
    handle: ({ person: { account }, query }, services) =>
      query.channel === 'email' ? testMail(services, account) : testOwnWebhook(services, account),
  }),
]
