import { createHmac } from 'node:crypto'
import { Secret } from '../../plugin/secret.ts'
import type { Webhook } from './alert-settings.ts'

/** The key of one webhook, which no store has: derived from the secret of the portal. */
const deriveKey = (portalSecret: Secret, account: string, { salt }: Webhook): Buffer =>
  createHmac('sha256', portalSecret.reveal()).update(`tollgate webhook ${account} ${salt}`).digest()

/** What the receiver checks signatures with, as Standard Webhooks writes it. */
export const webhookSecret = (portalSecret: Secret, account: string, webhook: Webhook): Secret =>
  new Secret(`whsec_${deriveKey(portalSecret, account, webhook).toString('base64')}`)

export interface SignedMessage {
  readonly account: string
  readonly webhook: Webhook
  /** The same for each attempt. */
  readonly id: string
  /** Seconds since 1970. */
  readonly timestamp: number
  readonly body: string
}

/** The headers of https://www.standardwebhooks.com, with one signature for each secret of the portal. */
export const signatureHeaders = (
  portalSecrets: readonly Secret[],
  { account, webhook, id, timestamp, body }: SignedMessage,
): Readonly<Record<string, string>> => {
  const signatures = portalSecrets.map(
    secret =>
      `v1,${createHmac('sha256', deriveKey(secret, account, webhook))
        .update(`${id}.${timestamp}.${body}`)
        .digest('base64')}`,
  )
  return { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signatures.join(' ') }
}
