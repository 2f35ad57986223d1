import { signal } from '@preact/signals'
import { texts } from './texts.ts'

/** The gateway refused; the message is a sentence for people, and `field` the member that is wrong. */
export class RequestError extends Error {
  readonly status: number
  readonly field: string | undefined

  constructor(status: number, message: string, field?: string) {
    super(message)
    this.status = status
    this.field = field
  }
}

/** Why the last request found no gateway, or a gateway without its store; else undefined. */
export const connectionProblem = signal<string | undefined>(undefined)

const signedOutListeners: (() => void)[] = []

/** Calls `listener` when a request is refused because nobody is signed in. */
export const onSignedOut = (listener: () => void): void => void signedOutListeners.push(listener)

type Verb = 'GET' | 'POST' | 'PATCH' | 'DELETE'

export const send = async <T>(verb: Verb, url: string, body?: object): Promise<T> => {
  const failToConnect = (): never => {
    connectionProblem.value = texts.notConnected
    throw new RequestError(0, texts.notConnected)
  }
  const response = await fetch(url, {
    method: verb,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  }).catch(failToConnect)
  const isEmpty = response.status === 204 // the routes without a response
  // What is not JSON comes from a proxy that does not reach the gateway.
  const json = isEmpty ? undefined : await response.json().catch(failToConnect)
  connectionProblem.value = json?.error?.code === 'store-unavailable' ? json.error.message : undefined
  if (isEmpty) return undefined as T
  if (response.ok) return json
  if (response.status === 401) for (const listener of signedOutListeners) listener()
  throw new RequestError(response.status, json.error.message, json.error.field)
}

/** A request to the API. */
export const request = <T>(verb: Verb, path: string, body?: object): Promise<T> => send(verb, `/api/v1${path}`, body)

export const get = <T>(path: string): Promise<T> => request<T>('GET', path)

// What the browser knows at once; the next request notices the rest.
addEventListener('offline', () => {
  connectionProblem.value = texts.notConnected
})
addEventListener('online', () => void get('/session').catch(() => undefined))
