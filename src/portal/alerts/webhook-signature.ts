import { createHmac } from 'node:crypto'
import { Secret } from '../../plugin/secret.ts'

/** The key of one webhook of an account, which no store has: derived from the secret of the portal. */
export const deriveKey = (portalSecret: Secret, account: string, { salt }: { readonly salt: string }): Buffer =>
  derive(portalSecret, `${account} ${salt}`)

/** In place of the id of an account, of which none is as this. */
export const operatorsId = 'operators'

/** The key of a webhook of operators, by its name in gateway.yaml. */
export const deriveOperatorKey = (portalSecret: Secret, name: string): Buffer => deriveKey(portalSecret, operatorsId, { salt: name })

/** The key of the webhook of a billing system. No id of an account is as its purpose. */
export const deriveUsageKey = (portalSecret: Secret): Buffer => derive(portalSecret, 'usage')

const derive = (portalSecret: Secret, purpose: string): Buffer =>
  createHmac('sha256', portalSecret.reveal()).update(`tollgate webhook ${purpose}`).digest()

/** What the receiver checks signatures with, as Standard Webhooks writes it. */
export const formatKey = (key: Buffer): Secret => new Secret(`${secretPrefix}${key.toString('base64')}`)

const secretPrefix = 'whsec_'

interface SignedMessage {
  /** The same for each attempt. */
  readonly id: string
  /** Seconds since 1970. */
  readonly timestamp: number
  readonly body: string
}

/** The headers of https://www.standardwebhooks.com. */
export const signatureHeaders = (key: Buffer, { id, timestamp, body }: SignedMessage): Readonly<Record<string, string>> => ({
  'webhook-id': id,
  'webhook-timestamp': String(timestamp),
  'webhook-signature': `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`,
})
