import type { NetworkJson } from '../../routes/networks.ts'
import { callBody } from './code-samples.ts'
import { compactJson, indentJson, isJson, tokensOf } from './json-text.ts'

/** What the gateway answered to a call from the page. */
export interface CallAnswer {
  readonly status: number
  readonly body: string
  readonly durationMs: number
  readonly headers: readonly (readonly [name: string, value: string])[]
}

const shownHeaders = ['X-Tollgate-Credits', 'X-Tollgate-Cache', 'X-Tollgate-Upstream', 'X-Tollgate-Verified', 'X-Request-Id']

/** What people type, as JSON texts: JSON stays as it is, with all digits; anything else is a text. Empty fields at the end are left out. */
export const parseParams = (texts: readonly string[]): readonly string[] => {
  const last = texts.findLastIndex(text => text.trim() !== '')
  return texts.slice(0, last + 1).map(text => (text.trim() === '' ? 'null' : parseParam(text.trim())))
}

/** A bare number is a text: no parameter of these methods is one. */
const parseParam = (text: string): string =>
  /^[[{"]|^(?:true|false|null)$/.test(text) && isJson(text) ? compactJson(text) : JSON.stringify(text)

/** The items of a JSON array as people would type them; none where the text is no array. */
export const splitParams = (json: string): readonly string[] => {
  if (!isJson(json) || !json.trimStart().startsWith('[')) return []
  const items: string[] = []
  let depth = 0
  let item = ''
  for (const token of tokensOf(json)) {
    if (token === ']' || token === '}') depth -= 1
    const isEnd = depth === 0 || (depth === 1 && token === ',')
    if (isEnd && item !== '') items.push(toTyped(item))
    item = isEnd ? '' : item + token
    if (token === '[' || token === '{') depth += 1
  }
  return items
}

/** A text without its quotes, where it is still taken for the same one. */
const toTyped = (item: string): string => {
  const text: unknown = item.startsWith('"') ? JSON.parse(item) : undefined
  return typeof text === 'string' && text.trim() !== '' && parseParam(text.trim()) === item ? text : item
}

export const sendCall = async ({ http }: NetworkJson, key: string, method: string, params: readonly string[]): Promise<CallAnswer> => {
  const started = performance.now()
  const response = await fetch(`${http}/v3/${key}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: callBody(method, params),
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

export const prettyJson = (text: string): string =>
  text.length > maxShownChars ? `${text.slice(0, maxShownChars)}…` : isJson(text) ? indentJson(text) : text
