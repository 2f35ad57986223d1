import type { NetworkJson } from '../../routes/networks.ts'
import { callBody } from './code-samples.ts'
import { indentJson, isJson } from './json-text.ts'

/** What the gateway answered to a call from the page. */
export interface CallAnswer {
  readonly status: number
  readonly body: string
  readonly durationMs: number
  /** Null where no gateway has answered. */
  readonly requestId: string | null
  readonly headers: readonly (readonly [name: string, value: string])[]
}

/** Names the call in Requests. */
const requestIdHeader = 'X-Request-Id'

const shownHeaders = ['X-Tollgate-Credits', 'X-Tollgate-Cache', 'X-Tollgate-Upstream', 'X-Tollgate-Verified', requestIdHeader]

export const sendCall = async ({ http }: NetworkJson, key: string, method: string, params: readonly string[]): Promise<CallAnswer> => {
  const started = performance.now()
  const response = await fetch(`${http}/v3/${key}`, {
    method: 'POST',
    // It is to be found in Requests.
    headers: { 'content-type': 'application/json', 'tollgate-log': 'always' },
    body: callBody(method, params),
    referrerPolicy: 'no-referrer',
    credentials: 'omit',
  })
  const text = await response.text()
  return {
    status: response.status,
    body: prettyJson(text),
    durationMs: performance.now() - started,
    requestId: response.headers.get(requestIdHeader),
    headers: shownHeaders.flatMap(name => {
      const value = response.headers.get(name)
      return value === null ? [] : [[name, value] as const]
    }),
  }
}

const maxShownChars = 100_000

const prettyJson = (text: string): string =>
  text.length > maxShownChars ? `${text.slice(0, maxShownChars)}…` : isJson(text) ? indentJson(text) : text
