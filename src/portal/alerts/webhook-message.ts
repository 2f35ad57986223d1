import type { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../../services/clock.ts'
import type { RecordStore } from '../../store/record-store.ts'
import type { AccountRow } from '../../store/store.ts'
import { isoTime } from '../../util/dates.ts'
import type { BrandOptions } from '../brand.ts'
import { randomId } from '../random-tokens.ts'
import { readSigningKey } from '../signing-key.ts'
import type { Webhook } from './alert-settings.ts'
import { formatMessage } from './message-format.ts'
import { resolveHost } from './webhook-addresses.ts'
import type { ResolveHost } from './webhook-addresses.ts'
import { postWebhook } from './webhook-request.ts'
import type { DeliveryOutcome, WebhookClientOptions } from './webhook-request.ts'
import { deriveKey, signatureHeaders } from './webhook-signature.ts'

export interface WebhookSender {
  readonly store: RecordStore
  readonly clock: Clock
  readonly portalSecret: Secret | undefined
  readonly version: string
  readonly resolve?: ResolveHost
}

export interface WebhookMessage {
  /** The same for each attempt. */
  readonly id: string
  readonly body: string
}

interface WebhookTarget {
  /** Id of the account. */
  readonly account: string
  readonly webhook: Webhook
  /** Whether the operator lets webhooks have the address. */
  isAllowed(address: string): boolean
}

interface SignedRequest {
  readonly url: string
  readonly key: Buffer
  readonly message: WebhookMessage
  readonly signal: AbortSignal
}

/** Signs a message, and sends it once. Never rejects. */
export const postSigned = (
  { version, ...client }: WebhookClientOptions & Pick<WebhookSender, 'version'>,
  { url, key, message, signal }: SignedRequest,
): Promise<DeliveryOutcome> => {
  const timestamp = Math.floor(client.clock.now() / 1_000)
  const headers = {
    'content-type': 'application/json',
    'user-agent': `Tollgate/${version}`,
    ...signatureHeaders(key, { timestamp, ...message }),
  }
  return postWebhook({ url, headers, body: message.body, signal }, client)
}

/** Sends a message to the webhook of an account, once. Rejects where the store fails. */
export const sendWebhookMessage = async (
  { store, clock, portalSecret, version, resolve = resolveHost }: WebhookSender,
  { account, webhook, isAllowed }: WebhookTarget,
  message: WebhookMessage,
  signal: AbortSignal,
): Promise<DeliveryOutcome> => {
  const key = deriveKey(await readSigningKey(store, portalSecret, 'webhooks'), account, webhook)
  return postSigned({ clock, version, isAllowed, resolve }, { url: webhook.url, key, message, signal })
}

/** A message of the type `test`. */
export const newTestMessage = (
  { clock, brand }: { readonly clock: Clock; readonly brand?: Pick<BrandOptions, 'name'> | undefined },
  { id, name }: Pick<AccountRow, 'id' | 'name'>,
  webhook: Pick<Webhook, 'format'>,
): WebhookMessage => ({
  id: randomId('msg_'),
  body: formatMessage(webhook, { type: 'test', timestamp: isoTime(clock.now()), data: { account: { id, name } } }, brand),
})
