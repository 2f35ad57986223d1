import { normalizeHost } from './host-name.ts'

/**
 * What a Redis URL says: `redis://USER:PASSWORD@HOST:PORT/DATABASE`, with several hosts for the nodes of a cluster; or
 * `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/PRIMARY/DATABASE`, whose hosts are Sentinels. `rediss` uses TLS.
 */
export interface RedisUrl {
  /** `host:port`, with brackets around an IPv6 host. */
  readonly hosts: readonly string[]
  /** The name by which Sentinels know the primary; undefined where the hosts are Redises. */
  readonly primary: string | undefined
  readonly database: number
  /** The URL of one Redis, `host:port`, with the credentials and the database. */
  urlAt(host: string): string
  /** The same without database; of a Sentinel, or of a node of a cluster. Credentials are left out where a Sentinel needs none. */
  nodeUrlAt(host: string, credentials?: 'without credentials'): string
}

const pattern = /^(?<scheme>rediss?)(?<sentinel>\+sentinel)?:\/\/(?:(?<credentials>[^@/?#]*)@)?(?<hosts>[^@/?#]+)(?:\/(?<path>[^?#]*))?$/

const sentinelPath = /^(?<primary>[\w.-]+)(?:\/(?<database>\d*))?$/
const databasePath = /^(?<database>\d*)$/

/** Of a text that is such a URL. */
export const mustReadRedisUrl = (text: string): RedisUrl => {
  const url = readRedisUrl(text)
  if (url === undefined) throw new TypeError('not a Redis URL')
  return url
}

/** Undefined when the text is no such URL. A query or a fragment would have no effect, so a URL must not have one. */
export const readRedisUrl = (text: string): RedisUrl | undefined => {
  const { scheme = '', sentinel, credentials = '', hosts: hostList = '', path = '' } = pattern.exec(text)?.groups ?? {}
  const isSentinel = sentinel !== undefined
  const named = (isSentinel ? sentinelPath : databasePath).exec(path)?.groups
  const hosts = hostList.split(',').map(host => hostAndPort(scheme, host, isSentinel ? defaultSentinelPort : defaultPort))
  if (named === undefined || !hosts.every(isDefined) || !areCredentials(credentials)) return undefined
  const { primary, database = '' } = named
  const at = (host: string, userInfo: string, end: string) => `${scheme}://${userInfo === '' ? '' : `${userInfo}@`}${host}${end}`
  return {
    hosts,
    primary,
    database: Number(database),
    urlAt: host => at(host, credentials, database === '' ? '' : `/${database}`),
    nodeUrlAt: (host, without) => at(host, without === undefined ? credentials : '', ''),
  }
}

const defaultPort = 6379
const defaultSentinelPort = 26_379

const isDefined = (host: string | undefined): host is string => host !== undefined

/** Undefined when the text is no host with or without a port. */
const hostAndPort = (scheme: string, text: string, port: number): string | undefined => {
  const url = `${scheme}://${text}`
  if (!URL.canParse(url)) return undefined
  const { hostname, port: ownPort, host } = new URL(url)
  if (normalizeHost(hostname) === undefined || host.toLowerCase() !== text.toLowerCase()) return undefined
  return `${hostname}:${ownPort || port}`
}

const areCredentials = (text: string): boolean => {
  if (!URL.canParse(`redis://${text}@localhost`)) return false
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
