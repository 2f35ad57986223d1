import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import type { Address } from './types.ts'

/** A name by RFC 1123, or an IPv4 address; in lower case. Underscores pass, because containers are named with them. */
const isHostName = (text: string): boolean =>
  isIP(text) === 4 || (text.length <= 253 && text.split('.').every(part => dnsLabelPattern.test(part)) && !/(^|\.)\d+$/.test(text))

/** A host as Host headers are compared with it, in lower case, IPv6 without brackets; undefined when it is none. */
export const normalizeHost = (text: string): string | undefined => {
  const host = text.toLowerCase()
  if (isHostName(host)) return host
  const unbracketed = host.replace(/^\[(.*)\]$/, '$1')
  return isIP(unbracketed) === 6 && !unbracketed.includes('%') ? new URL(`http://[${unbracketed}]`).hostname.slice(1, -1) : undefined
}

/** What was probably meant by a host that is none. */
export const suggestHost = (text: string): string | undefined => {
  const hostPart = text
    .trim()
    .replace(/^[a-z]+:\/\//i, '')
    .replace(/\/.*$/, '')
    .replace(/:\d*$/, '')
    .replace(/\.$/, '')
  return normalizeHost(hostPart) ?? normalizeHost(domainToASCII(hostPart))
}

/** Is it `host:port`, with brackets round an IPv6 host? */
export const isHostPort = (text: string): boolean => {
  const [, host = '', port = ''] = /^(.*):(\d{1,5})$/.exec(text) ?? []
  const bracketed = /^\[(.*)\]$/.exec(host)?.[1]
  const isHost = bracketed === undefined ? isHostName(host.toLowerCase()) : isIP(bracketed) === 6
  return isHost && port !== '' && Number(port) < 65_536
}

/** The two parts of a text that isAddress(); the host without brackets. */
export const parseAddress = (text: string): Address => {
  const colon = text.lastIndexOf(':')
  return { host: text.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(colon + 1)) }
}

const dnsLabelPattern = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/
