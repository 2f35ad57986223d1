import { deriveOperatorKey } from '../portal/alerts/webhook-signature.ts'
import { alertOperations } from '../portal/operations/alert-operations.ts'
import { formatAlternatives } from '../util/did-you-mean.ts'
import { commonOptions, readArguments } from './args.ts'
import { CommandError } from './command.ts'
import type { Terminal } from './command.ts'
import { createOperationCommand } from './operations.ts'
import { printWebhookSecret } from './webhook-secret.ts'

/** With what the receiver of a webhook of `portal.operatorAlerts` checks signatures. */
const printOperatorWebhookSecret = (args: readonly string[], terminal: Terminal): Promise<number> => {
  const {
    values,
    positionals: [name],
  } = readArguments(args, ['WEBHOOK'], commonOptions)
  return printWebhookSecret(values, terminal, ({ operatorAlerts }, signingKey) => {
    const names = Object.keys(operatorAlerts?.webhooks ?? {})
    if (!names.includes(name)) {
      const known = names.length === 0 ? 'it has none' : `it has ${formatAlternatives(names)}`
      throw new CommandError(`gateway.yaml has no webhook of this name in \`portal.operatorAlerts\`: ${known}`)
    }
    return deriveOperatorKey(signingKey, name)
  })
}

const examples = {
  'alerts set alice --daily 80,100 --email on': 'mail at 80 % and 100 % of the credits of a day',
  'alerts test alice': 'sends a message to the webhook',
}

export const alertsCommand = createOperationCommand('alerts', alertOperations, examples, {
  'webhook-secret': {
    usage: 'alerts webhook-secret WEBHOOK [--json] [--config DIR]',
    positionals: { WEBHOOK: 'The name of a webhook in `portal.operatorAlerts`.' },
    options: commonOptions,
    run: printOperatorWebhookSecret,
  },
})
