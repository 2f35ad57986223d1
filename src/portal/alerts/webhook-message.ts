import type { Secret } from '../../plugin/secret.ts'
import type { AccountRow } from '../../store/store.ts'
import { isoTime } from '../../util/dates.ts'
import { ApiError } from '../api-errors.ts'
import type { BrandOptions } from '../brand.ts'
import { randomId } from '../people/random-tokens.ts'
import { readSigningKey } from '../signing-key.ts'
import { readAlertSettings } from './alert-settings.ts'
import type { Webhook } from './alert-settings.ts'
import { formatMessage } from './message-format.ts'
import { resolveHost, webhookAddressRule } from './webhook-addresses.ts'
import type { ResolveHost } from './webhook-addresses.ts'
import { postWebhook } from './webhook-request.ts'
import type { DeliveryOutcome, WebhookClientOptions } from './webhook-request.ts'
import { deriveKey, signatureHeaders } from './webhook-signature.ts'
import type { RecordServices } from '../record-services.ts'

export interface WebhookSender extends RecordServices {
  readonly portalSecret: Secret | undefined
  readonly version: string
  readonly resolve?: ResolveHost
}

interface WebhookMessage {
  /** The same for each attempt. */
  readonly id: string
  readonly body: string
}

export interface WebhookTarget {
  /** Id of the account; `operators` of theirs. */
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

export interface WebhookTester extends WebhookSender {
  readonly brand: Pick<BrandOptions, 'name'> | undefined
  /** Private addresses that webhooks may have. */
  readonly allowedSubnets: readonly string[]
}

/** Sends a message of the type `test` to the webhook of an account. `onFound` is called before, and may throw. Rejects with ApiError without a webhook. */
export const testWebhook = async (
  sender: WebhookTester,
  { id, name }: Pick<AccountRow, 'id' | 'name'>,
  onFound = (): void => undefined,
): Promise<DeliveryOutcome> => {
  const { store, clock, brand, allowedSubnets } = sender
  const { webhook } = await readAlertSettings(store, id)
  if (webhook === undefined) throw new ApiError(409, 'no-webhook', 'the account has no webhook: set one first')
  onFound()
  const body = formatMessage(webhook, { type: 'test', timestamp: isoTime(clock.now()), data: { account: { id, name } } }, brand)
  const target = { account: id, webhook, isAllowed: webhookAddressRule(allowedSubnets) }
  return sendWebhookMessage(sender, target, { id: randomId('msg_'), body }, new AbortController().signal)
}
