import { formatRate, parseRate } from '../config/formats.ts'
import { keyRefusal } from '../services/accounts/api-key.ts'
import type { KeyChange, KeyRow } from '../store/store.ts'
import { isSubnet } from '../util/address-set.ts'
import { isoTime, isoTimeOrNull } from '../util/dates.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { invalidField } from './api-errors.ts'
import { countOrNull, givenName, listOf, text, textOrNull, time, timeOrNull } from './openapi.ts'
import type { PortalServices } from './portal-services.ts'

const name = givenName('What people call the key.')

const days = {
  type: 'integer',
  minimum: 1,
  maximum: 3_650,
  description: 'After so many days the key expires; without it, never.',
} as const

const dailyCredits = {
  type: 'integer',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'Credits that the key may use of those of its account in one day, UTC; without it, or 0: all of them.',
} as const

const allowlist = (description: string) => ({ type: 'array', items: { type: 'string' }, description }) as const

const allowlists = {
  networks: allowlist('The networks that the key may call; every network without it, or when it is empty.'),
  methods: allowlist('The methods that the key may call; every method without it, or when it is empty.'),
  origins: allowlist('The web pages that may use the key, such as https://dapp.example; every page without it, or when it is empty.'),
  ips: allowlist('The IP addresses and subnets that may use the key, such as 10.0.0.0/8; every address without it, or when it is empty.'),
} as const

const rate = {
  type: 'string',
  pattern: '^([1-9]\\d{0,11}/[smh]|none)$',
  label: 'a rate such as 10/s, 600/m or 5000/h, or none',
  description:
    'Calls that the key may make in a time, in networks that limit rates; without it, or with `none`: as many as its account. It replaces ' +
    '`burst` too.',
} as const

const burst = {
  type: 'integer',
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'With `rate`: calls that may come at once; without it, as many as the rate allows in a second.',
} as const

/** What people can say of a key. */
export const keySettings = { name, ...allowlists, dailyCredits, rate, burst } as const

export const newKeySettings = { ...keySettings, days } as const

interface KeySettings extends Allowlists {
  readonly name?: string
  readonly dailyCredits?: number
  readonly rate?: string
  readonly burst?: number
}

type Allowlists = { readonly [Name in keyof typeof allowlists]?: readonly string[] }

/** The change that the lists ask for, with an empty list as no restriction. Throws ApiError where a list cannot be meant. */
const toListChange = ({ networks, methods, origins, ips }: Allowlists, services: PortalServices): KeyChange => {
  const knownNetworks = services.networks.map(network => network.name)
  const knownMethods = services.networks.flatMap(network => network.methods.map(method => method.name))
  checkKnown('networks', networks, knownNetworks)
  checkKnown('methods', methods, knownMethods)
  const wrongOrigin = origins?.find(origin => !isOrigin(origin))
  if (wrongOrigin !== undefined) throw invalidField('origins', `has "${wrongOrigin}", which is not an origin such as https://dapp.example`)
  const wrongIp = ips?.find(ip => !isSubnet(ip))
  if (wrongIp !== undefined) throw invalidField('ips', `has "${wrongIp}", which is not an IP address or a subnet such as 10.0.0.0/8`)
  return {
    ...(networks !== undefined && { networks: orNull(networks) }),
    ...(methods !== undefined && { methods: orNull(methods) }),
    ...(origins !== undefined && { origins: orNull(origins) }),
    ...(ips !== undefined && { ips: orNull(ips) }),
  }
}

/** The change that the settings ask for. */
export const toKeyChange = (
  { name: keyName, dailyCredits: credits, rate: rateText, burst: most, ...lists }: KeySettings,
  services: PortalServices,
): KeyChange => ({
  ...toListChange(lists, services),
  ...(keyName !== undefined && { name: keyName }),
  ...(credits !== undefined && { dailyCredits: credits === 0 ? null : credits }),
  ...toRateChange(rateText, most),
})

const toRateChange = (rateText: string | undefined, most: number | undefined): Pick<KeyChange, 'rate' | 'burst'> => {
  const perSecond = rateText === undefined ? undefined : parseRate(rateText)
  if (most !== undefined && perSecond === undefined) throw invalidField('burst', 'requires a rate')
  return rateText === undefined ? {} : { rate: perSecond ?? null, burst: most ?? null }
}

const orNull = (list: readonly string[]): readonly string[] | null => (list.length === 0 ? null : list)

/** Longer lists, such as that of the methods, are no help in an error. */
const maxListed = 10

const checkKnown = (field: string, list: readonly string[] | undefined, known: readonly string[]): void => {
  const unknown = list?.find(each => !known.includes(each))
  if (unknown === undefined) return
  const hint = didYouMean(unknown, known) ?? (known.length <= maxListed ? `expected ${known.join(', ')}` : undefined)
  throw invalidField(field, `has "${unknown}", which does not exist here${hint === undefined ? '' : `; ${hint}`}`)
}

const isOrigin = (text: string): boolean => {
  const withoutWildcard = text.replace('://*.', '://x.')
  return URL.canParse(withoutWildcard) && new URL(withoutWildcard).origin === withoutWildcard
}

/** A key as developers and the operator see it. Lists without an entry restrict nothing. */
export const keyJson = (row: KeyRow, now: number) => {
  const { id, name = '', hint, networks = [], methods = [], origins = [], ips = [], dailyCredits = null, rate, burst = null } = row
  return {
    ...{ id, name, hint, networks, methods, origins, ips, dailyCredits },
    rate: rate === undefined ? null : formatRate(rate),
    burst,
    state: keyRefusal(row, now) ?? ('active' as const),
    created: isoTime(row.created),
    expires: isoTimeOrNull(row.expires),
    suspended: isoTimeOrNull(row.suspended),
    revoked: isoTimeOrNull(row.revoked),
  }
}

export type KeyJson = ReturnType<typeof keyJson>

/** What keyJson() returns. */
export const keyProperties = {
  id: text,
  name: text,
  hint: { type: 'string', description: 'The last characters of the key.' },
  networks: listOf(text),
  methods: listOf(text),
  origins: listOf(text),
  ips: listOf(text),
  dailyCredits: countOrNull,
  rate: textOrNull,
  burst: countOrNull,
  state: { type: 'string', enum: ['active', 'suspended', 'expired', 'revoked'] },
  created: time,
  expires: timeOrNull,
  suspended: timeOrNull,
  revoked: timeOrNull,
} as const
