import { formatKey } from '../portal/alerts/webhook-signature.ts'
import { readSigningKey } from '../portal/signing-key.ts'
import type { Secret } from '../plugin/secret.ts'
import type { GatewayConfig } from '../config/types.ts'
import type { Terminal } from './command.ts'
import { withStoreContext } from './store-context.ts'

interface WebhookSecretOptions {
  readonly config: string
  readonly json: boolean
}

/** Prints what the receiver of a webhook of gateway.yaml checks signatures with. `derive` may throw CommandError. */
export const printWebhookSecret = (
  { config: dir, json }: WebhookSecretOptions,
  terminal: Terminal,
  derive: (portal: GatewayConfig['portal'], signingKey: Secret) => Buffer,
): Promise<number> =>
  withStoreContext(dir, terminal, async ({ store, config: { portal } }) => {
    const secret = formatKey(derive(portal, await readSigningKey(store, portal.secret, 'webhooks'))).reveal()
    terminal.out(json ? JSON.stringify({ secret }) : secret)
  })
