import { resolve } from 'node:path'
import type { StringSchema } from '../plugin/options-schema.ts'
import { Secret } from '../plugin/secret.ts'
import { isSubnet } from '../util/address-set.ts'
import { maxPort, normalizeHost } from '../util/host-name.ts'
import { durationUnits, formatInUnits, isNearlyInteger, sizeUnits } from '../util/units.ts'
import type { Units } from '../util/units.ts'
import { addressRule, hostRule, isHostPort, isSecureUrl, parseAddress, suggestHost } from './addresses.ts'
import { parseRedisUrl, parseStoreAddress } from './store-address.ts'

/** A format of strings. */
interface Format {
  /** In tables of options. */
  readonly name: string
  /** In a message, after "must be". */
  readonly description: string
  /** The text may hold a secret: it is shown nowhere, or with its URL masked. Messages do not quote it. */
  readonly secret?: 'hidden' | 'masked URL'
  /** For editors; wider than the format where no pattern can tell. */
  readonly pattern?: string
  accepts(text: string): boolean
  /** What the plugin gets in place of the text; `directory` is that of the YAML file. Only for texts that are accepted. */
  readonly convert?: (text: string, directory: string) => unknown
  /** The accepted text that was probably meant. */
  suggest?(text: string): string | undefined
  /** What is wrong with a text that is nearly accepted, without the text. */
  explain?(text: string): string | undefined
  /** Shown where no text was probably meant; that of the option itself is better. */
  readonly example?: string
}

/** Milliseconds; undefined when the text is no duration. */
export const parseDuration = (text: string): number | undefined => parseUnits(text, durationUnits)

/** Bytes; undefined when the text is no size. */
export const parseSize = (text: string): number | undefined => parseUnits(text, sizeUnits)

/** Per second, greater than 0; undefined when the text is no rate. */
export const parseRate = (text: string): number | undefined => {
  const [, digits = '', unit = ''] = /^(\d{1,12})\/([smh])$/.exec(text) ?? []
  const seconds: number | undefined = secondsByUnit[unit as keyof typeof secondsByUnit] // the pattern has no other unit
  return seconds === undefined || Number(digits) === 0 ? undefined : Number(digits) / seconds
}

const secondsByUnit = { s: 1, m: 60, h: 3_600 } as const

/** The shortest text that parseRate() reads as this rate. */
export const formatRate = (perSecond: number): string => {
  const unit = (['s', 'm', 'h'] as const).find(each => isNearlyInteger(perSecond * secondsByUnit[each])) ?? 'h'
  return `${Math.round(perSecond * secondsByUnit[unit])}/${unit}`
}

/** URL.canParse() encodes most of these characters; none of them belongs in a URL. Variables do, as in examples. */
const explainUrl = (text: string): string | undefined => {
  if (/[<>{}]/.test(text.replace(/\$\{[^{}]*\}/g, '')))
    return 'the URL still has a placeholder in < > or { }: replace it, for example with ${NODE_KEY}'
  if (/\s/.test(text)) return 'the URL contains a space'
  const [, port] = /^\w+:\/\/[^/?#]*:(\d+)(?:[/?#]|$)/.exec(text) ?? []
  return Number(port) > maxPort ? `the port of the URL is greater than ${maxPort}` : undefined
}

/** What follows the scheme may hold a password. */
const explainStore = (text: string): string | undefined => {
  const [scheme = ''] = /^[a-z]+(?=:)/i.exec(text) ?? []
  if (scheme.startsWith('redis')) return 'the whole URL is redis://USER:PASSWORD@HOST:PORT/DATABASE, special characters as %XX'
  return ['', 'lmdb'].includes(scheme) ? undefined : `${scheme} is not supported`
}

/** fetch() refuses such a URL, with a message that quotes it. */
const hasCredentials = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { username, password } = new URL(text)
  return username !== '' || password !== ''
}

const kebabCase = /^[a-z0-9]+(-[a-z0-9]+)*$/

/** Names of networks, plans, steps and method tables, which are file names and arguments of commands too. */
export const isKebabCase = (text: string): boolean => kebabCase.test(text)

export const formats: Readonly<Record<NonNullable<StringSchema['format']>, Format>> = {
  duration: {
    name: 'duration',
    pattern: '^\\d+(ms|s|m|h|d)$',
    description: 'a duration such as 250ms, 10s or 5m',
    accepts: text => parseDuration(text) !== undefined,
    convert: parseDuration,
    suggest: text => ifAccepted('duration', withoutFraction(abbreviateUnit(text.replaceAll(' ', '').toLowerCase()), durationUnits)),
  },
  'auto-duration': {
    name: 'duration or `auto`',
    description: 'auto, or a duration such as 250ms, 10s or 5m',
    accepts: text => text === 'auto' || parseDuration(text) !== undefined,
    convert: text => (text === 'auto' ? text : parseDuration(text)),
    suggest: text => (text.toLowerCase() === 'auto' ? 'auto' : formats.duration.suggest?.(text)),
  },
  size: {
    name: 'size',
    pattern: '^\\d+(B|KiB|MiB|GiB|TiB)$',
    description: 'a size such as 64KiB, 512MiB or 2GiB',
    accepts: text => parseSize(text) !== undefined,
    convert: parseSize,
    suggest: text =>
      ifAccepted(
        'size',
        withoutFraction(
          text
            .toUpperCase()
            .replace(/^([\d.]+) *(?:([KMGT])I?B?|B)$/, (_, digits, unit) => (unit === undefined ? `${digits}B` : `${digits}${unit}iB`)),
          sizeUnits,
        ),
      ),
  },
  url: {
    name: 'URL',
    secret: 'masked URL',
    pattern: '^([hH][tT][tT][pP][sS]?|[wW][sS][sS]?)://',
    description: 'a URL that starts with http, https, ws or wss',
    example: 'https://node.example.org/KEY',
    accepts: text => /^(https?|wss?):\/\//i.test(text) && URL.canParse(text) && explainUrl(text) === undefined,
    convert: text => new Secret(text),
    suggest: text => (/^\$[A-Z][A-Z0-9_]*$/.test(text) ? `\${${text.slice(1)}}` : undefined),
    explain: explainUrl,
  },
  address: {
    name: 'host:port',
    pattern: ':\\d{1,5}$',
    description: 'host:port',
    example: '127.0.0.1:8080, or [::1]:8080',
    accepts: isHostPort,
    convert: parseAddress,
    suggest: text => ifAccepted('address', suggestAddress(text)),
    explain: addressRule,
  },
  host: {
    name: 'host',
    description: 'a host name or an IP address, without port',
    example: 'rpc.example.org',
    accepts: text => normalizeHost(text) !== undefined,
    convert: normalizeHost,
    suggest: suggestHost,
    explain: hostRule,
  },
  store: {
    name: 'lmdb:PATH or Redis URL',
    secret: 'masked URL',
    pattern: '^(lmdb:.|rediss?(\\+sentinel)?://)',
    description: 'lmdb:PATH or redis://HOST:PORT',
    accepts: text => parseStoreAddress(text, '') !== undefined,
    convert: parseStoreAddress,
    explain: explainStore,
  },
  redis: {
    name: 'Redis URL',
    secret: 'masked URL',
    pattern: '^rediss?(\\+sentinel)?://',
    description: 'a Redis URL such as redis://127.0.0.1:6379',
    accepts: text => parseRedisUrl(text) !== undefined,
    convert: parseRedisUrl,
  },
  secret: {
    name: 'secret',
    secret: 'hidden',
    description: 'a secret',
    accepts: text => text !== '',
    convert: text => new Secret(text),
  },
  rate: {
    name: 'rate',
    description: 'a rate such as 100/s, 6000/m or 100000/h',
    accepts: text => parseRate(text) !== undefined,
    convert: parseRate,
    suggest: text => ifAccepted('rate', /^\d+$/.test(text) ? `${text}/s` : text.replace(/ *(?:\/|per) *([smh])\w*$/i, '/$1').toLowerCase()),
  },
  subnet: {
    name: 'IP address or subnet',
    description: 'an IP address or a subnet',
    example: '10.0.0.7, 10.0.0.0/8 or 2001:db8::/32',
    accepts: isSubnet,
  },
  'web-url': {
    name: 'URL',
    pattern: '^https?://[^/?#@]+/?$',
    description: 'a URL such as https://tollgate.example.org',
    accepts: text => webUrlPattern.test(text) && URL.canParse(text),
    explain: text => (webUrlPattern.test(text) ? 'the URL has no valid host or port' : undefined),
  },
  'https-url': {
    name: 'URL',
    secret: 'masked URL',
    pattern: '^https?://[^#]+$',
    description: 'an https:// URL without user and password',
    accepts: text => /^https?:\/\/[^#]+$/.test(text) && isSecureUrl(text) && !hasCredentials(text),
    explain: text =>
      /^http:/.test(text) && !isSecureUrl(text)
        ? 'http:// is for a server on this machine: elsewhere its answers could be replaced on their way'
        : undefined,
  },
  'http-url': {
    name: 'URL',
    secret: 'hidden',
    pattern: '^https?:',
    description: 'an http:// or https:// URL',
    accepts: text => /^https?:/.test(text) && URL.canParse(text),
    convert: text => new Secret(text),
  },
  'smtp-url': {
    name: 'URL',
    secret: 'hidden',
    pattern: '^smtps?://',
    description: 'an smtp:// or smtps:// URL',
    accepts: text => /^smtps?:\/\//.test(text) && URL.canParse(text) && new URL(text).hostname !== '',
    convert: text => new Secret(text),
    explain: () => 'user and password stand before the host, special characters as %XX',
  },
  path: {
    name: 'path',
    description: 'a path',
    accepts: text => text !== '',
    convert: (text, directory) => resolve(directory, text),
  },
  'log-file': {
    name: '`stdout` or path',
    description: 'stdout or a path',
    accepts: text => text !== '',
    convert: (text, directory) => (text === 'stdout' ? text : resolve(directory, text)),
  },
  'kebab-case': {
    name: 'string in kebab-case',
    pattern: kebabCase.source,
    description: 'kebab-case',
    accepts: isKebabCase,
  },
}

/** A duration in ms, or a size in bytes: their units differ. */
export const parseQuantity = (text: string): number | undefined => parseDuration(text) ?? parseSize(text)

/** What has the form of a URL may still be none, such as http://1.2.3.999. */
const webUrlPattern = /^https?:\/\/[^/?#@]+\/?$/

const parseUnits = (text: string, units: Units): number | undefined => {
  const [, digits, unit = ''] = /^(\d+)([a-zA-Z]+)$/.exec(text) ?? []
  const value = Number(digits) * (units[unit] ?? NaN)
  return Number.isSafeInteger(value) ? value : undefined
}

/** `10sec`, `10seconds`. */
const abbreviateUnit = (text: string): string =>
  text.replace(/(?<=\d)(?:(milli)s(?:econds?)?|(?:ms|msecs?)|(s|m|h|d)(?:ec|in|r|our|ay|econd|inute)?s?)$/, (_, millis, unit = 'ms') =>
    millis === undefined ? unit : 'ms',
  )

/** `0.25s` in the largest unit in which it is a whole number: 250ms. */
const withoutFraction = (text: string, units: Units): string => {
  const [, fraction, unit = ''] = /^(\d*\.\d+)([a-zA-Z]+)$/.exec(text) ?? []
  return formatInUnits(Number(fraction) * (units[unit] ?? NaN), units) ?? text
}

/** Only a port, a URL, `*` for all addresses, or an IPv6 address without brackets. */
const suggestAddress = (text: string): string =>
  text
    .replace(/^\w+:\/\//, '')
    .replace(/\/.*$/, '')
    .replace(/^\*:/, '0.0.0.0:')
    .replace(/^:?(?=\d+$)/, '127.0.0.1:')
    .replace(/^([\da-f]*:[\da-f:]*):(?=\d+$)/i, '[$1]:')

const ifAccepted = (name: 'duration' | 'size' | 'address' | 'rate', text: string): string | undefined =>
  formats[name].accepts(text) ? text : undefined
