import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { unescape as decodePercent } from 'node:querystring'
import { Secret } from '../plugin/secret.ts'
import { refuse } from '../plugin/reply.ts'
import type { Failure } from '../plugin/reply.ts'
import { apiKeyPrefix } from '../services/accounts/api-key.ts'
import type { ReadClientAddress } from './client-address.ts'
import type { EndpointByHost, NetworkEndpoint } from './reloadable-endpoints.ts'
import { RequestOrigin } from './request-origin.ts'
import { methodNotAllowed, refuseOtherTransport, refuseUnknownHost, refuseUnknownPath } from './routing-refusals.ts'

/** Contract 4.1: `/v3/<API_KEY>` for HTTP, `/ws/v3/<API_KEY>` for WebSocket; `/v3` and `/ws/v3` with the key in a header. */
type Transport = 'http' | 'websocket'

/** What requests are routed with. */
interface RoutingServices {
  readonly endpointByHost: EndpointByHost
  readonly readClientAddress: ReadClientAddress
}

export interface RoutedRequest {
  readonly endpoint: NetworkEndpoint
  readonly origin: RequestOrigin
}

/** Finds the network by host and path; a failure is a 400, a 404, or a 405 or 426 where the path is one of the other transport's. */
export const routeRequest = (
  { endpointByHost, readClientAddress }: RoutingServices,
  transport: Transport,
  request: IncomingMessage,
): RoutedRequest | Failure => {
  if (request.method === 'CONNECT') return methodNotAllowed // its target is a host and a port, without a path
  const refusal = checkRequestHead(request)
  if (refusal !== undefined) return refusal
  const { host, path } = targetOf(request)
  if (host === undefined) return malformedHost
  const endpoint = endpointByHost.get(host)
  if (endpoint === undefined) return refuseUnknownHost(host)
  if ('error' in path) return path
  if (path.transport !== transport) return refuseOtherTransport(transport === 'websocket', request)
  const key = keyOf(path, request)
  if (key !== undefined && 'error' in key) return key
  return { endpoint, origin: new RequestOrigin(request, { transport, network: endpoint.name, key, ip: readClientAddress(request) }) }
}

/** What a request target and its Host header say. */
interface RequestTarget {
  readonly url: string
  readonly hostHeader: string
  readonly host: string | undefined
  readonly path: RequestPath | Failure
}

/** The latest target of each connection, as most connections send the same one again and again: 0.15 us less than to parse it. */
const latestTargets = new WeakMap<Socket, RequestTarget>()

/** Longer ones are parsed each time: a connection that waits for its next request holds little. */
const maxRememberedChars = 256

const targetOf = (request: IncomingMessage): RequestTarget => {
  const {
    url = '',
    headers: { host: hostHeader = '' },
    socket,
  } = request
  const latest = latestTargets.get(socket)
  if (latest?.url === url && latest.hostHeader === hostHeader) return latest
  const path = parseRequestPath(url)
  const target = { url, hostHeader, host: parseHost(request), path }
  const mayComeAgain = 'transport' in path && path.transport === 'http' // no request follows an upgrade
  if (mayComeAgain && url.length + hostHeader.length <= maxRememberedChars) latestTargets.set(socket, target)
  return target
}

interface RequestPath {
  readonly transport: Transport
  /** Absent when the path ends before it. */
  readonly apiKey: Secret | undefined
}

/** One slash may follow the key: HTTP clients with a base URL, such as axios, add it. */
const rpcPathPattern = /^\/(ws\/)?v3(?:\/(?:([^/]+)\/?)?)?$/

/** A request target in absolute form, as a proxy may send it: its host counts, not the Host header (RFC 9112, 3.2.2). */
const absoluteFormPattern = /^https?:\/\/([^/?#]*)(.*)$/i

/** Reads the path of a request; a query is ignored, anything else must fit exactly. */
const parseRequestPath = (url: string): RequestPath | Failure => {
  const target = url.startsWith('/') ? url : (absoluteFormPattern.exec(url)?.[2] ?? url)
  const query = target.indexOf('?')
  const path = query < 0 ? target : target.slice(0, query)
  const match = rpcPathPattern.exec(path)
  if (match !== null) return { transport: match[1] === undefined ? 'http' : 'websocket', apiKey: parseApiKey(match[2]) }
  return refuseUnknownPath(path)
}

const parseApiKey = (text: string | undefined): Secret | undefined =>
  text === undefined || text === '' ? undefined : new Secret(text.includes('%') ? decodePercent(text) : text, maskApiKey)

const maskApiKey = (text: string): string => `…${text.slice(-4)}`

const bearerPattern = /^bearer +([^ ]+) *$/i

/** The API key of the path or of a header; a request that names two is refused, as a proxy may have added one of them. */
const keyOf = ({ apiKey }: RequestPath, { headers, rawHeaders }: IncomingMessage): Secret | undefined | Failure => {
  if (headers.authorization === undefined && headers['x-api-key'] === undefined) return apiKey
  const texts = [apiKey?.reveal(), ...headerKeys(rawHeaders, apiKey !== undefined)].filter(text => text !== undefined && text !== '')
  return texts.every(text => text === texts[0]) ? (apiKey ?? parseApiKey(texts[0])) : differentKeys
}

/** Of all headers: of several Authorization headers Node keeps the first, and joins several X-Api-Key. */
const headerKeys = (rawHeaders: readonly string[], isKeyInPath: boolean): readonly (string | undefined)[] => {
  const keys: (string | undefined)[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]?.toLowerCase()
    if (name === 'authorization') keys.push(bearerKey(rawHeaders[i + 1] ?? '', isKeyInPath))
    else if (name === 'x-api-key') keys.push(rawHeaders[i + 1])
  }
  return keys
}

/** Other schemes are for proxies; so is a token of another kind beside the key in the path. */
const bearerKey = (text: string, isKeyInPath: boolean): string | undefined => {
  const token = bearerPattern.exec(text)?.[1]
  return isKeyInPath && token?.startsWith(apiKeyPrefix) === false ? undefined : token
}

const differentKeys = refuse('key', {
  message: 'the request has two different API keys: one in its path, the other in a header, or two in headers',
})

/** Refuses what Node's parser accepts, and what proxies and servers read differently: the ground of request smuggling. */
export const checkRequestHead = (request: IncomingMessage): Failure | undefined => {
  const { httpVersionMajor, httpVersionMinor, headers, rawHeaders } = request
  if (hasTooManyHeaders(request)) return tooManyHeaders
  if (httpVersionMajor !== 1) return unsupportedVersion
  const coding = headers['transfer-encoding']
  if (coding !== undefined && (httpVersionMinor === 0 || coding.toLowerCase() !== 'chunked')) return unsupportedCoding
  return countHostHeaders(rawHeaders) === 1 ? undefined : hostRequired
}

/**
 * As in Apache httpd and Envoy. A request with 700 takes Node 200 us, one with four 55, before anything can make it wait; and Node reads those of all
 * connections on which one has arrived in one turn.
 */
const maxHeaders = 100

export const hasTooManyHeaders = ({ rawHeaders }: IncomingMessage): boolean => rawHeaders.length > 2 * maxHeaders

/** Node keeps the first of several Host headers. */
export const countHostHeaders = (rawHeaders: readonly string[]): number => {
  let count = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string // rawHeaders holds names and values in turn
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1
  }
  return count
}

const tooManyHeaders = refuse('headersTooLarge', { message: `the request has more than ${maxHeaders} headers` })
const unsupportedVersion = refuse('malformed', { message: 'the HTTP version must be 1.1 or 1.0' })
const unsupportedCoding = refuse('malformed', { message: 'the only transfer coding accepted is chunked, over HTTP/1.1' })
const malformedHost = refuse('malformed', { message: 'the Host header must be a host, and a port where it is not the usual one' })
const hostRequired = refuse('malformed', { message: 'the request must have exactly one Host header, which names the network' })

/** The host that a request names, in lower case and without its port; undefined where what follows it is no port. */
export const parseHost = ({ headers: { host = '' }, url = '' }: IncomingMessage): string | undefined =>
  stripPort(url.startsWith('/') ? host : (absoluteFormPattern.exec(url)?.[1] ?? host))

/** RFC 3986, 3.2.2 and 3.2.3: a name, or an address in brackets, and a port, which may be empty. */
const hostPattern = /^(?:\[([^[\]]*)\]|([^:[\]]*?)\.?)(?::\d*)?$/

/** `Example.org:8080` -> `example.org`, `[::1]:80` -> `::1`; undefined for `example.org:x@y`, which proxies and servers read differently. */
const stripPort = (host: string): string | undefined => {
  const match = hostPattern.exec(host)
  return (match?.[1] ?? match?.[2])?.toLowerCase()
}
