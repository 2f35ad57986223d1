import { isIP } from 'node:net'

/** A host as Host headers are compared with it: lower case, IPv6 without brackets; undefined when the text is no host. */
export const normalizeHost = (text: string): string | undefined => {
  const host = text.toLowerCase()
  if (isHostName(host)) return host
  const unbracketed = host.replace(/^\[(.*)\]$/, '$1')
  return isIP(unbracketed) === 6 && !unbracketed.includes('%') ? new URL(`http://[${unbracketed}]`).hostname.slice(1, -1) : undefined
}

/** A name by RFC 1123, or an IPv4 address; in lower case. Underscores are accepted, as names of containers have them. */
export const isHostName = (text: string): boolean =>
  isIP(text) === 4 ||
  (text.length <= maxHostNameChars && text.split('.').every(part => dnsLabelPattern.test(part)) && !/(^|\.)\d+$/.test(text))

export const maxHostNameChars = 253
export const maxDnsLabelChars = 63
const dnsLabelPattern = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/
