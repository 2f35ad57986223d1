import { version } from '../core/version.ts'
import { readAlertSettings } from '../portal/alerts/alert-settings.ts'
import { alertProperties, alertsJson, changeAlerts, removeWebhook, setWebhook } from '../portal/alerts/manage-alerts.ts'
import type { AlertChange } from '../portal/alerts/manage-alerts.ts'
import { isWebhookUrl } from '../portal/alerts/webhook-request.ts'
import { webhookAddressRule } from '../portal/alerts/webhook-addresses.ts'
import { newTestMessage, sendWebhookMessage } from '../portal/alerts/webhook-message.ts'
import { ApiError } from '../portal/api-errors.ts'
import { checkInput } from '../portal/route.ts'
import { systemClock } from '../services/clock.ts'
import { readArguments, runSubcommand, storeOptions } from './args.ts'
import type { Subcommand } from './args.ts'
import { CommandError, UsageError, commandSummaries } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { getAccount, withStoreContext } from './store-context.ts'
import type { StoreContext } from './store-context.ts'
import { formatFields, formatTable } from './table-output.ts'

/** In place of thresholds or of a URL. */
const noneKeyword = 'none'

const options = {
  daily: {
    type: 'string',
    placeholder: 'N,N',
    description: `With set: percent of the credits of a day at which an alert is sent; \`${noneKeyword}\` for no alerts.`,
  },
  monthly: {
    type: 'string',
    placeholder: 'N,N',
    description: `With set: percent of the daily credits of all days of a month; \`${noneKeyword}\` for no alerts.`,
  },
  email: {
    type: 'string',
    placeholder: 'on|off',
    description: 'With set: whether the owners of the account who have confirmed their e-mail addresses get mail.',
  },
  webhook: {
    type: 'string',
    placeholder: 'URL',
    description: `With set: where messages are sent, in place of the webhook before; its secret is printed once. \`${noneKeyword}\` removes it.`,
  },
  ...storeOptions,
} as const

/** Who is told when an account has used a share of its credits. */
export const alertsCommand: Command = {
  name: 'alerts',
  summary: commandSummaries.alerts,
  usage: [
    'alerts show NAME [--json] [--config DIR]',
    'alerts set NAME [--daily N,N|none] [--monthly N,N|none] [--email on|off] [--webhook URL|none] [--json] [--config DIR]',
    'alerts test NAME [--json] [--config DIR]',
  ],
  positionals: { NAME: 'The name or the id of the account.' },
  options,
  run: async (args, terminal) => runSubcommand({ show, set, test }, args, terminal),
}

const show: Subcommand = (args, terminal) => {
  const {
    values: { config, json },
    positionals: [accountName],
  } = readArguments(args, ['NAME'], storeOptions)
  return withStoreContext(config, terminal, async context => {
    const { store } = context
    const alerts = await alertsJson(store, (await getAccount(store, accountName)).id)
    if (json) terminal.out(JSON.stringify(alerts))
    else printAlerts(alerts, context, terminal)
  })
}

const set: Subcommand = (args, terminal) => {
  const {
    values: { config, json, webhook, ...values },
    positionals: [accountName],
  } = readArguments(args, ['NAME'], options)
  const change = readChange(values)
  if (change === undefined && webhook === undefined) {
    throw new UsageError('nothing to change: expected --daily, --monthly, --email or --webhook')
  }
  if (webhook !== undefined && webhook !== noneKeyword && !isWebhookUrl(webhook)) {
    throw new UsageError(`--webhook must be a URL such as https://example.org/hook, without user and password, or \`${noneKeyword}\``)
  }
  return withStoreContext(config, terminal, async context => {
    const { store } = context
    const { id } = await getAccount(store, accountName)
    const services = { ...context, secrets: context.portal.secrets, canMail: context.portal.smtp !== undefined }
    const secret = await asCommand(async () => {
      if (change !== undefined) await changeAlerts(services, id, change)
      if (webhook === noneKeyword) await removeWebhook(services, id)
      return webhook === undefined || webhook === noneKeyword ? undefined : setWebhook(services, id, webhook)
    })
    const alerts = await alertsJson(store, id)
    if (json) return terminal.out(JSON.stringify({ ...alerts, ...(secret && { secret: secret.reveal() }) }))
    printAlerts(alerts, context, terminal)
    if (secret === undefined) return
    terminal.out('The secret of the webhook, with which its receiver checks signatures (it is not shown again):')
    terminal.out(secret.reveal())
  })
}

const test: Subcommand = (args, terminal) => {
  const {
    values: { config, json },
    positionals: [accountName],
  } = readArguments(args, ['NAME'], storeOptions)
  return withStoreContext(config, terminal, async ({ store, portal: { secrets, webhooks } }) => {
    const account = await getAccount(store, accountName)
    const { webhook } = await readAlertSettings(store, account.id)
    if (webhook === undefined) throw new CommandError(`account "${account.name}" has no webhook: set one with alerts set`)
    const outcome = await sendWebhookMessage(
      { store, secrets, version, clock: systemClock },
      { account: account.id, webhook, isAllowed: webhookAddressRule(webhooks?.allow ?? []) },
      newTestMessage(systemClock, account),
      new AbortController().signal,
    )
    if (json) terminal.out(JSON.stringify(outcome))
    else if (outcome.isDelivered) terminal.out(`the webhook took the test message: ${outcome.status}`)
    if (!outcome.isDelivered) throw new CommandError(`the test message was not delivered: ${outcome.status}`)
  })
}

/** Undefined where no option is given. Throws UsageError, by the rules of the API. */
const readChange = ({ daily, monthly, email }: Readonly<Record<string, unknown>>): AlertChange | undefined => {
  if (email !== undefined && email !== 'on' && email !== 'off') throw new UsageError(`--email must be on or off, not "${email}"`)
  const change = {
    ...(daily !== undefined && { daily: readThresholds(String(daily)) }),
    ...(monthly !== undefined && { monthly: readThresholds(String(monthly)) }),
    ...(email !== undefined && { email: email === 'on' }),
  }
  if (Object.keys(change).length === 0) return undefined
  try {
    return checkInput('body', { type: 'object', properties: alertProperties }, change) as AlertChange // checked against the schema
  } catch (error) {
    // Of a list, the API names the item: `daily.0`.
    throw error instanceof ApiError ? new UsageError(`--${error.message.replace(/\.\d+ must be/, ': each percent must be')}`) : error
  }
}

const readThresholds = (text: string): readonly number[] =>
  text === noneKeyword ? [] : text.split(',').map(each => (each.trim() === '' ? Number.NaN : Number(each)))

/** What the API refuses, as the line of a command. */
const asCommand = async <T>(work: () => Promise<T>): Promise<T> => {
  try {
    return await work()
  } catch (error) {
    throw error instanceof ApiError ? new CommandError(error.message) : error
  }
}

const printAlerts = (
  { webhook, email, daily, monthly, mailReceivers, deliveries }: Awaited<ReturnType<typeof alertsJson>>,
  { hasPortal }: StoreContext,
  { out, err }: Terminal,
): void => {
  if (!hasPortal) err('no alerts are sent: gateways with this configuration have no dashboard; set `listen.portal` in gateway.yaml')
  const receivers = mailReceivers.length === 0 ? 'no owner has a confirmed address' : mailReceivers.join(', ')
  const fields = {
    daily: formatThresholds(daily),
    monthly: formatThresholds(monthly),
    email: email ? `on (${receivers})` : 'off',
    webhook: webhook?.url ?? noneKeyword,
  }
  for (const line of formatFields(fields)) out(line)
  if (deliveries.length === 0) return
  out('')
  const cells = deliveries.map(({ date, threshold, channel, person, state, lastStatus }) => [
    date,
    `${threshold} %`,
    person ?? channel,
    state,
    lastStatus ?? '',
  ])
  for (const line of formatTable(['OF', 'THRESHOLD', 'TO', 'STATE', 'LAST RESULT'], cells)) out(line)
}

const formatThresholds = (thresholds: readonly number[]): string =>
  thresholds.length === 0 ? noneKeyword : thresholds.map(each => `${each} %`).join(', ')
