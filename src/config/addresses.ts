import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { domainToASCII } from 'node:url'
import { Secret } from '../plugin/secret.ts'
import type { Address, StoreAddress } from './types.ts'

/** A host as Host headers are compared with it: lower case, IPv6 without brackets; undefined when the text is no host. */
export const normalizeHost = (text: string): string | undefined => {
  const host = text.toLowerCase()
  if (isHostName(host)) return host
  const unbracketed = host.replace(/^\[(.*)\]$/, '$1')
  return isIP(unbracketed) === 6 && !unbracketed.includes('%') ? new URL(`http://[${unbracketed}]`).hostname.slice(1, -1) : undefined
}

/** A name by RFC 1123, or an IPv4 address; in lower case. Underscores are accepted, as names of containers have them. */
const isHostName = (text: string): boolean =>
  isIP(text) === 4 ||
  (text.length <= maxHostNameChars && text.split('.').every(part => dnsLabelPattern.test(part)) && !/(^|\.)\d+$/.test(text))

const maxHostNameChars = 253
const maxDnsLabelChars = 63
const dnsLabelPattern = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/

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

const maxPort = 65_535

/** The two parts of a text that isHostPort(); the host without brackets. */
export const parseAddress = (text: string): Address => {
  const colon = text.lastIndexOf(':')
  return { host: text.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(colon + 1)) }
}

/** Reads `lmdb:PATH`, relative to `baseDir`, or a Redis URL; undefined when the text is neither. */
export const parseStoreAddress = (text: string, baseDir: string): StoreAddress | undefined => {
  if (text.startsWith(lmdbPrefix)) {
    const path = text.slice(lmdbPrefix.length)
    return path === '' ? undefined : { kind: 'lmdb', path: resolve(baseDir, path) }
  }
  const url = parseRedisUrl(text)
  return url && { kind: 'redis', url }
}

const lmdbPrefix = 'lmdb:'

/** A Secret that shows host and port; undefined when the text is no Redis URL. */
export const parseRedisUrl = (text: string): Secret | undefined => {
  const url = /^rediss?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined
  return url && isSupportedRedisUrl(url) ? new Secret(text, `${url.hostname}:${url.port || defaultRedisPort}`) : undefined
}

const defaultRedisPort = 6379

/** The database is a number; a query or a fragment would have no effect, so a URL must not have one. */
const isSupportedRedisUrl = ({ hostname, pathname, search, hash, username, password }: URL): boolean =>
  normalizeHost(hostname) !== undefined &&
  /^(\/\d*)?$/.test(pathname) &&
  search === '' &&
  hash === '' &&
  isPercentEncoded(username) &&
  isPercentEncoded(password)

const isPercentEncoded = (text: string): boolean => {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** HTTPS, or on this machine. */
export const isSecureUrl = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, hostname } = new URL(text)
  return protocol === 'https:' || ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
}
