import { isIP } from 'node:net'

/** A host as Host headers are compared with it: lower case, IPv6 without brackets; undefined when the text is no host. */
export const normalizeHost = (text: string): string | undefined => {
  const host = text.toLowerCase()
  if (isHostName(host)) return host
  const address = withoutBrackets(host)
  return isIP(address) === 6 && !address.includes('%') ? withoutBrackets(new URL(`http://[${address}]`).hostname) : undefined
}

/** A host as sockets take it: URLs have IPv6 addresses in brackets. */
export const withoutBrackets = (host: string): string => host.replace(/^\[(.*)\]$/, '$1')

/** A name by RFC 1123, or an IPv4 address; in lower case. Underscores are accepted, as names of containers have them. */
export const isHostName = (text: string): boolean =>
  isIP(text) === 4 ||
  (text.length <= maxHostNameChars && text.split('.').every(part => dnsLabelPattern.test(part)) && !/(^|\.)\d+$/.test(text))

export const maxPort = 65_535
export const maxHostNameChars = 253
export const maxDnsLabelChars = 63
const dnsLabelPattern = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/
