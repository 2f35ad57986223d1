import type { Network } from './api.ts'

/** What the gateway answered to a call from the page. */
export interface CallAnswer {
  readonly status: number
  readonly body: string
  readonly durationMs: number
  readonly headers: readonly (readonly [name: string, value: string])[]
}

const shownHeaders = ['X-Tollgate-Credits', 'X-Tollgate-Cache', 'X-Tollgate-Upstream', 'X-Request-Id']

/** What people type: JSON where it is JSON, else a text. Empty fields at the end are left out. */
export const parseParams = (texts: readonly string[]): readonly unknown[] => {
  const last = texts.findLastIndex(text => text.trim() !== '')
  return texts.slice(0, last + 1).map(text => (text.trim() === '' ? null : parseParam(text.trim())))
}

const parseParam = (text: string): unknown => {
  // A number would lose digits, and no parameter of these methods is one.
  if (!/^[[{"]|^(?:true|false|null)$/.test(text)) return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export const sendCall = async ({ http }: Network, key: string, method: string, params: readonly unknown[]): Promise<CallAnswer> => {
  const started = performance.now()
  const response = await fetch(`${http}/v3/${key}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    referrerPolicy: 'no-referrer',
    credentials: 'omit',
  })
  const text = await response.text()
  return {
    status: response.status,
    body: prettyJson(text),
    durationMs: performance.now() - started,
    headers: shownHeaders.flatMap(name => {
      const value = response.headers.get(name)
      return value === null ? [] : [[name, value] as const]
    }),
  }
}

const maxShownChars = 100_000

const prettyJson = (text: string): string => {
  const shown = text.length > maxShownChars ? `${text.slice(0, maxShownChars)}…` : text
  try {
    return JSON.stringify(JSON.parse(shown), undefined, 2)
  } catch {
    return shown
  }
}
