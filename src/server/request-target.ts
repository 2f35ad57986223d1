import type { IncomingMessage } from 'node:http'
import { unescape as decodePercent } from 'node:querystring'
import { Secret } from '../plugin/secret.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'

/** The doors of contract 4.1: `/v3/<API_KEY>` for HTTP, `/ws/v3/<API_KEY>` for WebSocket. */
export type Transport = 'http' | 'websocket'

export interface RequestPath {
  readonly transport: Transport
  /** Absent when the path ends before it. */
  readonly apiKey: Secret | undefined
}

const rpcPathPattern = /^\/(ws\/)?v3(?:\/([^/]*))?$/
const versionPattern = /^\/(?:ws\/)?(v\d{1,6})(?:\/|$)/

/** A request target in absolute form, as a proxy may send it: its host counts, not the Host header (RFC 9112, 3.2.2). */
const absoluteFormPattern = /^https?:\/\/([^/?#]*)(.*)$/i

/** Reads the path of a request; a query is ignored, anything else must fit exactly. */
export const parseRequestPath = (url: string): RequestPath | Failure => {
  const target = url.startsWith('/') ? url : (absoluteFormPattern.exec(url)?.[2] ?? url)
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  const match = rpcPathPattern.exec(path)
  if (match !== null) return { transport: match[1] === undefined ? 'http' : 'websocket', apiKey: parseApiKey(match[2]) }
  const version = versionPattern.exec(path)?.[1]
  return refuse('notFound', {
    message:
      version === undefined || version === 'v3'
        ? 'not found: the version served is v3: POST to /v3/<API_KEY>, or open a WebSocket at /ws/v3/<API_KEY>'
        : `the version ${version} is not served; the version served is v3: /v3/<API_KEY>`,
  })
}

const parseApiKey = (text: string | undefined): Secret | undefined =>
  text === undefined || text === '' ? undefined : new Secret(text.includes('%') ? decodePercent(text) : text, maskApiKey)

const maskApiKey = (text: string): string => `…${text.slice(-4)}`

/**
 * The host that a request names, in lower case and without its port. A request with two Host headers names none: proxies
 * and servers differ on which counts (Node takes the first).
 */
export const parseHost = ({ headers, rawHeaders, url = '' }: IncomingMessage): string | undefined => {
  const host = headers.host
  if (host === undefined) return undefined
  let hostHeaderCount = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string // rawHeaders holds names and values in turn
    if (name.length === 4 && name.toLowerCase() === 'host') hostHeaderCount += 1
  }
  if (hostHeaderCount !== 1) return undefined
  return stripPort(url.startsWith('/') ? host : (absoluteFormPattern.exec(url)?.[1] ?? host))
}

/** `Example.org:8080` -> `example.org`, `[::1]:80` -> `::1`. */
const stripPort = (host: string): string => {
  const bracket = host.startsWith('[') ? host.indexOf(']') : -1
  if (bracket > 0) return host.slice(1, bracket).toLowerCase()
  const colon = host.indexOf(':')
  const name = colon < 0 ? host : host.slice(0, colon)
  return (name.endsWith('.') ? name.slice(0, -1) : name).toLowerCase()
}
