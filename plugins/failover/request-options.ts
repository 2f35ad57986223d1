import type { Path, ReportProblem, Secret } from '../../src/plugin/plugin.ts'

/** What the gateway sets itself, or what is about one connection. */
const reservedHeaders: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'traceparent',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

interface RequestOptions {
  readonly url: Secret
  readonly headers?: Readonly<Record<string, Secret>>
  readonly compression: boolean
}

/** Reports what of the options of the node at `path` would have no effect, or could not be sent to it. Values of headers are never shown. */
export const checkRequestOptions = ({ compression, ...node }: RequestOptions, path: Path, report: ReportProblem): void => {
  if (compression && /^ws/i.test(node.url.reveal())) report([...path, 'compression'], '`compression` applies only to http:// and https://')
  checkHeaders(node, path, report)
}

const checkHeaders = ({ url, headers = {} }: Omit<RequestOptions, 'compression'>, path: Path, report: ReportProblem): void => {
  const names = Object.keys(headers).map(name => name.toLowerCase())
  const { username, password } = new URL(url.reveal())
  Object.entries(headers).forEach(([name, value], i) => {
    const problem = nameProblem(name, names.slice(0, i)) ?? valueProblem(value)
    if (problem !== undefined) report([...path, 'headers', name], problem)
    else if (name.toLowerCase() === 'authorization' && username + password !== '')
      report([...path, 'headers', name], `\`${name}\` and the user of \`url\` are both credentials: remove one of them`)
  })
}

const nameProblem = (name: string, namesBefore: readonly string[]): string | undefined => {
  const lowerCase = name.toLowerCase()
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return `"${name}" is not the name of an HTTP header, such as X-Api-Key`
  if (reservedHeaders.has(lowerCase) || lowerCase.startsWith('sec-websocket-')) return `the gateway sets the header \`${name}\` itself`
  return namesBefore.includes(lowerCase) ? `duplicate header \`${name}\`: upper and lower case make no difference` : undefined
}

/** Tabs, and visible ASCII characters. */
const valueProblem = (value: Secret): string | undefined =>
  /^[\t\x20-\x7e]*$/.test(value.reveal()) ? undefined : 'the value of a header must be one line of ASCII characters'
