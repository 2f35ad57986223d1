import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP } from 'node:net'
import type { LookupFunction } from 'node:net'
import type { Clock } from '../../services/clock.ts'
import { NameNotResolved } from './webhook-addresses.ts'
import type { ResolveHost } from './webhook-addresses.ts'
import { withoutBrackets } from '../../util/host-name.ts'

interface WebhookRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Ends the request early. */
  readonly signal: AbortSignal
}

export interface WebhookClientOptions {
  readonly clock: Clock
  isAllowed(address: string): boolean
  readonly resolve: ResolveHost
}

/** How an attempt ended, in words that the owner of the account reads. They quote neither response nor URL. */
export interface DeliveryOutcome {
  readonly isDelivered: boolean
  readonly status: string
}

/** For connection, request and response together. */
const webhookTimeoutMs = 10_000

/** The response is read so far, so that the receiver can finish it. */
const maxResponseBytes = 65_536

const addressRefused = 'the address of the webhook is private; the operator can allow it with `portal.webhooks.allow`'

/** True for what a webhook can be: http or https, without user and password. */
export const isWebhookUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return ['http:', 'https:'].includes(protocol) && username === '' && password === ''
}

/**
 * Sends one POST. The address is checked where the connection is made, so that a name which resolves to another address than before is
 * refused too; redirects are not followed. Never rejects.
 */
export const postWebhook = async (webhookRequest: WebhookRequest, client: WebhookClientOptions): Promise<DeliveryOutcome> => {
  const { url, signal } = webhookRequest
  const literal = withoutBrackets(new URL(url).hostname)
  if (isIP(literal) !== 0 && !client.isAllowed(literal)) return { isDelivered: false, status: addressRefused }
  const ended = new AbortController()
  const abort = () => ended.abort()
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  let timeoutStatus: string | undefined
  let isResolving = false
  const resolve: ResolveHost = async (host, ended) => {
    isResolving = true
    return client.resolve(host, ended).finally(() => (isResolving = false))
  }
  const timer = client.clock.after(webhookTimeoutMs, () => {
    timeoutStatus = `${isResolving ? 'DNS did not resolve the host name of the webhook' : 'no response'} within ${webhookTimeoutMs / 1_000} s`
    abort()
  })
  try {
    return await sendRequest({ ...webhookRequest, signal: ended.signal }, { ...client, resolve })
  } catch (error) {
    return { isDelivered: false, status: timeoutStatus ?? describeError(error) }
  } finally {
    timer.cancel()
    signal.removeEventListener('abort', abort)
  }
}

/** Resolves when the body of the response has ended, or cannot be read further; rejects without a response. */
const sendRequest = ({ url, headers, body, signal }: WebhookRequest, { isAllowed, resolve }: WebhookClientOptions) =>
  new Promise<DeliveryOutcome>((settle, reject) => {
    const options = {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      lookup: checkedLookup(resolve, isAllowed, signal),
      agent: false,
      signal,
    }
    let outcome: DeliveryOutcome | undefined
    const request = (new URL(url).protocol === 'https:' ? requestHttps : requestHttp)(url, options, response => {
      const received = (outcome = outcomeOf(response.statusCode ?? 0))
      let size = 0
      response.on('data', (chunk: Buffer) => {
        size += chunk.length
        if (size > maxResponseBytes) response.destroy()
      })
      response.on('error', () => undefined)
      response.on('close', () => settle(received))
    })
    // What comes after the status changes nothing: the receiver has had the message.
    request.on('error', error => (outcome === undefined ? reject(error) : settle(outcome)))
    // Without this listener, a request that is answered with 101 ends without an event.
    request.on('upgrade', (response, socket) => {
      socket.destroy()
      settle(outcomeOf(response.statusCode ?? 0))
    })
    request.end(body)
  })

const outcomeOf = (status: number): DeliveryOutcome => ({
  isDelivered: status >= 200 && status < 300,
  status: status >= 300 && status < 400 ? `HTTP ${status}: redirects are not followed` : `HTTP ${status}`,
})

class AddressRefused extends Error {}

const describeError = (error: unknown): string => {
  if (error instanceof AddressRefused) return addressRefused
  if (error instanceof NameNotResolved) return error.message
  const { code } = Object(error) as { code?: string }
  return `the connection failed${typeof code === 'string' ? ` (${code})` : ''}`
}

/** Refuses a name when one of its addresses is refused. */
const checkedLookup =
  (resolve: ResolveHost, isAllowed: (address: string) => boolean, signal: AbortSignal): LookupFunction =>
  (host, { all }, callback) => {
    resolve(host, signal).then(
      addresses => {
        const found = addresses.map(address => ({ address, family: isIP(address) }))
        const [first] = found
        if (first === undefined || !found.every(({ address }) => isAllowed(address))) callback(new AddressRefused(), [])
        else if (all) callback(null, found)
        else callback(null, first.address, first.family)
      },
      (error: Error) => callback(error, []),
    )
  }
