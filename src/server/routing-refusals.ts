import type { IncomingMessage } from 'node:http'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { apiKeyPrefix } from '../services/accounts/api-key.ts'

// Which requests are refused for their HTTP method, host or path, and what is right. Messages never have the path: it may hold an API key.

/** Of a request that is no upgrade, on a path that takes calls. */
export const methodNotAllowed = refuse('httpMethod', { message: 'the HTTP method must be POST, with a JSON-RPC request as the body' })

const upgradeNotServed = refuse('notFound', { message: 'not found: WebSockets open at /ws/v3/<API_KEY>' })
const upgradeRequired = refuse('upgradeRequired', {
  message: 'this path takes WebSocket upgrades, and a proxy in between must pass them on; for HTTP, POST to /v3/<API_KEY>',
})
const getRequired = refuse('httpMethod', {
  message: 'this path takes WebSocket upgrades; POST to /v3/<API_KEY>',
  allow: 'GET, OPTIONS',
})

/** A WebSocket upgrade on a path that takes calls, or a call on a path that takes upgrades. */
export const refuseOtherTransport = (isUpgrade: boolean, { method }: IncomingMessage): Failure =>
  isUpgrade ? upgradeNotServed : method === 'GET' ? upgradeRequired : getRequired

const servedPaths = 'POST to /v3/<API_KEY>, or open a WebSocket at /ws/v3/<API_KEY>'

/** Without `_`, which API keys have. */
const hostPattern = /^[a-z\d.:-]{1,253}$/

/** Names the host, as a proxy may have changed it. */
export const refuseUnknownHost = (host: string): Failure =>
  refuse('notFound', {
    message: `not found: no network is served on ${hostPattern.test(host) ? `the host ${host}` : 'this host'} (a proxy in between must keep the Host header); where one is, the path is /v3/<API_KEY>`,
  })

const versionPattern = /^\/(?:ws\/)?(v\d{1,6})(?:\/|$)/

/** The first that matches. */
const pathProblems: readonly (readonly [RegExp, string])[] = [
  [/\/\//, 'the path has two slashes in a row; remove one'],
  [/^\/(?:ws\/)?v3\/[^/]+\//, 'the path has more after /v3/ than the API key; the host names the network'],
  [/^\/(?:ws\/)?v3(?:\/|$)/i, '`v3` and `ws` in the path are in lower case'],
  [/\/v3(?:\/|$)/, 'the path has more in front of /v3; a proxy in between must remove it'],
  [new RegExp(`/${apiKeyPrefix}`), 'the version is missing in front of the API key'],
]

export const refuseUnknownPath = (path: string): Failure => {
  const version = versionPattern.exec(path)?.[1]
  const problem =
    version === undefined || version === 'v3'
      ? (pathProblems.find(([pattern]) => pattern.test(path))?.[1] ?? 'the version served is v3')
      : `the version ${version} is not served; the version served is v3`
  return refuse('notFound', { message: `not found: ${problem}: ${servedPaths}` })
}
