import type { IncomingMessage } from 'node:http'
import { AddressSet, parseAddressText } from '../util/address-set.ts'
import { peerAddressOf } from './caller-connection.ts'
import type { ProxyProtocol } from './proxy-protocol.ts'
import type { ReadConnectionAddress } from './read-pacing.ts'

/** The address of the caller of a request; empty where it is not known. */
export type ReadClientAddress = (request: Pick<IncomingMessage, 'headers' | 'socket'>) => string

/**
 * The address of the connection, or what the PROXY protocol says in its place. When that is the address of a trusted proxy, it is the
 * rightmost address in X-Forwarded-For or Forwarded that is not one: each proxy adds the address of its own peer, and what stands further
 * left was sent by the caller.
 */
export const createClientAddressReader = (
  trustedProxies: readonly string[],
  proxyProtocol?: Pick<ProxyProtocol, 'addressOf'>,
): ReadClientAddress => {
  if (trustedProxies.length === 0) return peerAddressOf
  const trusted = new AddressSet(trustedProxies)
  return request => {
    const peer = proxyProtocol?.addressOf(request.socket) ?? peerAddressOf(request)
    if (!trusted.has(peer)) return peer
    const { forwarded, 'x-forwarded-for': forwardedFor } = request.headers
    const byForwardedFor = forwardedFor === undefined ? undefined : rightmostUntrusted(String(forwardedFor).split(','), trusted)
    const byForwarded = forwarded === undefined ? undefined : rightmostUntrusted(parseForwarded(forwarded), trusted)
    // A proxy writes one of the headers; where the two differ, the other one came from the caller.
    if (byForwardedFor !== undefined && byForwarded !== undefined && byForwardedFor !== byForwarded) return ''
    return byForwardedFor ?? byForwarded ?? peer
  }
}

export const createConnectionAddressReader = (
  trustedProxies: readonly string[],
  proxyProtocol?: Pick<ProxyProtocol, 'addressOf'>,
): ReadConnectionAddress => {
  const trusted = new AddressSet(trustedProxies)
  return socket => {
    const address = proxyProtocol?.addressOf(socket) ?? socket.remoteAddress ?? ''
    return address === '' || trusted.has(address) ? undefined : address
  }
}

/** The leftmost address when all are trusted; empty when an entry on the way is no address. */
const rightmostUntrusted = (entries: readonly string[], trusted: AddressSet): string => {
  let address = ''
  for (const entry of entries.toReversed()) {
    address = parseNode(entry) ?? ''
    if (!trusted.has(address)) return address
  }
  return address
}

/** An address with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`. */
const parseNode = (entry: string): string | undefined => {
  const text = entry.trim()
  return parseAddressText(/^\[([^\]]*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text)
}

/** RFC 7239, section 4: one parameter, and what ends it. */
const forwardedParameter = /\s*(?:([\w!#$%&'*+.^`|~-]+)=("(?:[^"\\]|\\.)*"|[^\s;,"]*)\s*)?(;|,|$)/y

/**
 * The `for` of each element, empty where it has none. A malformed header has one element without an address: an open quote could
 * hide the elements behind it, which are the proxy's.
 */
const parseForwarded = (header: string): readonly string[] => {
  const elements = ['']
  let offset = 0
  while (offset <= header.length) {
    forwardedParameter.lastIndex = offset
    const [match, name = '', value = '', end] = forwardedParameter.exec(header) ?? []
    if (match === undefined) return ['']
    if (name.toLowerCase() === 'for') elements[elements.length - 1] = unquote(value)
    if (end === '') return elements
    if (end === ',') elements.push('')
    offset += match.length
  }
  return elements
}

const unquote = (value: string): string => (value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/g, '$1') : value)
