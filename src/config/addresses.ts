import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { isHostName, maxDnsLabelChars, maxHostNameChars, maxPort, normalizeHost, withoutBrackets } from '../util/host-name.ts'
import type { Address } from './types.ts'

/** The host that was probably meant by a text that is none. */
export const suggestHost = (text: string): string | undefined => {
  const hostPart = text
    .trim()
    .replace(/^[a-z]+:\/\//i, '')
    .replace(/\/.*$/, '')
    .replace(/:\d*$/, '')
    .replace(/\.$/, '')
  // In ASCII, domainToASCII() would make 0.0.0.7 of 7.
  return normalizeHost(/\P{ASCII}/u.test(hostPart) ? domainToASCII(hostPart) : hostPart)
}

/** Why a text that looks like a host is none; undefined when it is anything else. */
export const hostRule = (text: string): string | undefined => {
  if (text.includes('*')) return 'wildcards are not supported: list each host'
  if (text.length > maxHostNameChars) return `a host name has at most ${maxHostNameChars} characters`
  return text.split('.').some(part => part.length > maxDnsLabelChars)
    ? `each part of a host name has at most ${maxDnsLabelChars} characters`
    : undefined
}

/** `host:port`, with brackets around an IPv6 host. */
export const isHostPort = (text: string): boolean => {
  const [, host = '', port = ''] = /^(.*):(\d{1,5})$/.exec(text) ?? []
  const bracketed = /^\[(.*)\]$/.exec(host)?.[1]
  const isHost = bracketed === undefined ? isHostName(host.toLowerCase()) : isIP(bracketed) === 6
  return isHost && port !== '' && Number(port) <= maxPort
}

/** Why a text that looks like `host:port` is none; undefined when it is anything else. */
export const addressRule = (text: string): string | undefined =>
  Number(/:(\d{1,15})$/.exec(text)?.[1]) > maxPort ? `a port is at most ${maxPort}` : undefined

/** The two parts of a text that isHostPort(); the host without brackets. */
export const parseAddress = (text: string): Address => {
  const colon = text.lastIndexOf(':')
  return { host: withoutBrackets(text.slice(0, colon)), port: Number(text.slice(colon + 1)) }
}

/** HTTPS, or on this machine. */
export const isSecureUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}
