import { Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { AddressSet } from '../../util/address-set.ts'

/** Addresses of IPv4 that are no hosts of the internet: the IANA registry of special purposes, multicast and reserved ones. */
const specialIpv4 = new AddressSet([
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
])

/** What is assigned to hosts of the internet. Outside are loopback, link-local and private addresses, and IPv4 in IPv6. */
const globalIpv6 = new AddressSet(['2000::/3'])

/** Within 2000::/3: protocols (Teredo among them), examples, and 6to4, which has an IPv4 address in it. */
const specialIpv6 = new AddressSet(['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'])

const isPublic = (address: string): boolean => {
  const version = isIP(address)
  if (version === 4) return !specialIpv4.has(address)
  // A zone names an interface of this machine.
  return version === 6 && !address.includes('%') && globalIpv6.has(address) && !specialIpv6.has(address)
}

/** Which addresses a webhook may have: public ones, and those that the operator allows. */
export const webhookAddressRule = (allowedSubnets: readonly string[]): ((address: string) => boolean) => {
  const allowed = new AddressSet(allowedSubnets)
  return address => isPublic(address) || allowed.has(address)
}

/** Why a name has no address, in words for the owner of the webhook. */
export class NameNotResolved extends Error {}

/** Of a name server that knows the name, or knows that there is none. */
const absentCodes: ReadonlySet<unknown> = new Set(['ENOTFOUND', 'ENODATA'])

const notResolved = (errors: readonly unknown[]): NameNotResolved => {
  const codes = errors.map(error => (Object(error) as { code?: unknown }).code)
  const failure = codes.find(code => !absentCodes.has(code))
  return new NameNotResolved(
    failure === undefined
      ? 'DNS has no address for the host name of the webhook'
      : `DNS did not resolve the host name of the webhook (${failure})`,
  )
}

export type ResolveHost = (host: string, signal: AbortSignal) => Promise<readonly string[]>

/**
 * The addresses of a name, by DNS alone. dns.lookup() would take one of the four threads in which LMDB writes too: a name server that
 * does not answer would hold up calls.
 */
export const createHostResolver =
  (servers?: readonly string[]): ResolveHost =>
  async (host, signal) => {
    // RFC 6761: never asked of a name server.
    if (/(^|\.)localhost\.?$/i.test(host)) return ['127.0.0.1', '::1']
    const resolver = new Resolver()
    if (servers !== undefined) resolver.setServers(servers)
    const cancel = () => resolver.cancel()
    signal.addEventListener('abort', cancel, { once: true })
    try {
      const found = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
      const addresses = found.flatMap(each => (each.status === 'fulfilled' ? each.value : []))
      if (addresses.length === 0) throw notResolved(found.flatMap(each => (each.status === 'rejected' ? [each.reason] : [])))
      return addresses
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  }

/** By the name servers of the system. */
export const resolveHost: ResolveHost = createHostResolver()
