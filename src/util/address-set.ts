import { BlockList, isIP } from 'node:net'

/** An IP address in one spelling: without a zone, and IPv4 in IPv6 as IPv4. Undefined when the text is no address. */
export const parseAddressText = (text: string): string | undefined => {
  const address = text.startsWith(mappedPrefix) && text.includes('.') ? text.slice(mappedPrefix.length) : text.replace(/%.*$/, '')
  return isIP(address) === 0 ? undefined : address
}

/** How Node shows an IPv4 address on a listener of both families. */
const mappedPrefix = '::ffff:'

/** Whoever has one address of it has all: a /64 of IPv6, and a single address of IPv4. */
export const networkOf = (address: string): string => {
  if (isIP(address) !== 6) return address
  const [head = '', tail] = address.toLowerCase().split('::') as [string?, string?]
  const groups = head === '' ? [] : head.split(':')
  const tailGroups = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = new Array<string>(tail === undefined ? 0 : Math.max(0, 8 - groups.length - tailGroups.length)).fill('0')
  const prefix = [...groups, ...zeros, ...tailGroups].slice(0, 4).map(group => group.replace(/^0+(?=.)/, ''))
  return `${prefix.join(':')}::/64`
}

/** What one customer of a provider, or one office, usually has: a /48 of IPv6, and a /24 of IPv4. Of a network as `networkOf` names it. */
export const siteOf = (network: string): string => {
  const isIPv6 = network.includes(':')
  return `${network
    .split(isIPv6 ? ':' : '.')
    .slice(0, 3)
    .join(isIPv6 ? ':' : '.')}/${isIPv6 ? 48 : 24}`
}

interface Subnet {
  readonly address: string
  readonly family: 'ipv4' | 'ipv6'
  readonly prefixBits: number
}

const subnetPattern = /^([0-9a-f.:]+)(?:\/(0|[1-9]\d{0,2}))?$/i

const parseSubnet = (text: string): Subnet | undefined => {
  const [, address = '', prefix] = subnetPattern.exec(text) ?? []
  const version = isIP(address)
  const maxBits = version === 6 ? 128 : 32
  const prefixBits = prefix === undefined ? maxBits : Number(prefix)
  return version === 0 || prefixBits > maxBits ? undefined : { address, family: version === 6 ? 'ipv6' : 'ipv4', prefixBits }
}

/** True for an IP address, and for a subnet such as 10.0.0.0/8 or 2001:db8::/32. */
export const isSubnet = (text: string): boolean => parseSubnet(text) !== undefined

/** IP addresses and subnets. */
export class AddressSet {
  readonly #subnets = new BlockList()
  /** A look-up in a BlockList takes 2 us. */
  readonly #recent = new Map<string, boolean>()

  /** Each text must be a subnet. */
  constructor(texts: readonly string[]) {
    for (const text of texts) {
      const subnet = parseSubnet(text)
      if (subnet === undefined) throw new RangeError('an entry is not an IP address or a subnet')
      this.#subnets.addSubnet(subnet.address, subnet.prefixBits, subnet.family)
    }
  }

  /** False for a text that is no address. */
  has(text: string): boolean {
    if (text.length > maxAddressChars) return false
    const recent = this.#recent.get(text)
    if (recent !== undefined) return recent
    const address = parseAddressText(text)
    const found = address !== undefined && this.#subnets.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
    if (this.#recent.size >= maxRecent) this.#recent.clear()
    this.#recent.set(text, found)
    return found
  }
}

const maxRecent = 1_000
/** With a zone. */
const maxAddressChars = 64
