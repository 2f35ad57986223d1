import type { NetworkJson } from '../../routes/networks.ts'

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

const callBody = (method: string, params: readonly string[]): string =>
  `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(method)},"params":[${params.join(',')}]}`

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

const prettyJson = (text: string): string =>
  text.length > maxShownChars ? `${text.slice(0, maxShownChars)}…` : isJson(text) ? indentJson(text) : text

interface CodeSample {
  readonly language: string
  readonly code: string
}

/** The call as a developer would write it, with API_KEY in place of the key unless that is given. Each of `params` is a JSON text. */
export const codeSamples = ({ http }: NetworkJson, method: string, params: readonly string[], key = 'API_KEY'): readonly CodeSample[] => {
  const url = `${http}/v3/${key}`
  const body = callBody(method, params)
  const list = `[${params.join(', ')}]`
  return [
    { language: 'curl', code: `curl -s ${url} -H 'Content-Type: application/json' -d '${body.replaceAll("'", "'\\''")}'` },
    {
      language: 'viem',
      code: [
        "import { createPublicClient, http } from 'viem'",
        '',
        `const client = createPublicClient({ transport: http('${url}', { timeout: 12_000 }) })`,
        `console.log(await client.request({ method: '${method}', params: ${list} }))`,
      ].join('\n'),
    },
    {
      language: 'ethers',
      code: [
        "import { JsonRpcProvider } from 'ethers'",
        '',
        `const provider = new JsonRpcProvider('${url}')`,
        `console.log(await provider.send('${method}', ${list}))`,
      ].join('\n'),
    },
    {
      language: 'web3.py',
      code: [
        'from web3 import Web3',
        '',
        `w3 = Web3(Web3.HTTPProvider("${url}"))`,
        `print(w3.provider.make_request("${method}", ${toPython(list)}))`,
      ].join('\n'),
    },
  ]
}

// JSON as text: to parse and write it would change the digits of numbers beyond 2^53.

const tokenPattern = /"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s"[\]{}:,]+/g

const tokensOf = (json: string): readonly string[] => json.match(tokenPattern) ?? []

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Without white space. The text must be JSON, here and below. */
const compactJson = (json: string): string => tokensOf(json).join('')

const indentJson = (json: string): string => {
  let depth = 0
  let indented = ''
  let last = ''
  const newLine = () => `\n${'  '.repeat(depth)}`
  for (const token of tokensOf(json)) {
    const isEmpty = (last === '[' && token === ']') || (last === '{' && token === '}')
    if (token === ']' || token === '}') {
      depth -= 1
      if (!isEmpty) indented += newLine()
    } else if (last === '[' || last === '{' || last === ',') indented += newLine()
    indented += token === ':' ? ': ' : token
    if (token === '[' || token === '{') depth += 1
    last = token
  }
  return indented
}

const pythonByToken: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None', ':': ': ', ',': ', ' }

/** The same value in Python. */
const toPython = (json: string): string =>
  tokensOf(json)
    .map(token => pythonByToken[token] ?? (token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token))
    .join('')
