import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import { countHostHeaders, parseHost } from './request-routing.ts'

/**
 * Does the request name one of these hosts, a loopback name or address, or the address that it comes in on? A page whose own name resolves to a
 * listener (DNS rebinding) names its own host. `hosts` are in lower case, IPv6 addresses without brackets.
 */
export const namesKnownHost = (request: IncomingMessage, hosts: readonly string[]): boolean => {
  const host = parseHost(request)
  return (
    host !== undefined &&
    countHostHeaders(request.rawHeaders) === 1 &&
    (isLoopbackName(host) || isOwnAddress(host, request.socket.localAddress) || hosts.includes(host))
  )
}

const isLoopbackName = (host: string): boolean => host === 'localhost' || host.endsWith('.localhost')

/** A loopback address, or the local address of the connection. */
const isOwnAddress = (host: string, localAddress = ''): boolean => {
  if (isIP(host) === 0) return false
  const addresses = new BlockList()
  addresses.addSubnet('127.0.0.0', 8)
  addresses.addAddress('::1', 'ipv6')
  const local = localAddress.replace(/^::ffff:(?=[\d.]+$)/, '') // an IPv4 address, as a listener on [::] shows it
  if (isIP(local) !== 0) addresses.addAddress(local, familyOf(local))
  return addresses.check(host, familyOf(host))
}

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4')
