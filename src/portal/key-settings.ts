import { formatRate, formats, parseRate } from '../config/formats.ts'
import { givenName } from '../services/accounts/account-fields.ts'
import { keyRefusal } from '../services/accounts/api-key.ts'
import type { KeyChange, KeyRow } from '../store/store.ts'
import { isSubnet } from '../util/address-set.ts'
import { isoTime, isoTimeOrNull } from '../util/dates.ts'
import { didYouMean, formatAlternatives, formatSuggestion } from '../util/did-you-mean.ts'
import { ApiError, invalidField } from './api-errors.ts'
import { countOrNull, listOf, text, textOrNull, time, timeOrNull } from './response-schemas.ts'

const name = givenName('What people call the key.')

const project = {
  ...name,
  pattern: `^$|${name.pattern}`,
  description: 'What the key is part of, such as an app: keys of one project are shown together. Empty: nothing.',
} as const

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

/** In place of a rate: no limit but that of the account. */
export const noRateKeyword = 'none'

const rate = {
  type: 'string',
  description:
    `Calls that the key may make in a time, such as 10/s or 600/m, in networks with the plugin \`rate-limit\`; without it, or with \`${noRateKeyword}\`: ` +
    'as many as its account. It replaces `burst` too.',
} as const

const burst = {
  type: 'integer',
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'With `rate`: calls that may come at once; without it, as many as the rate allows in a second.',
} as const

/** What people can say of a key. */
export const keySettings = { name, project, ...allowlists, dailyCredits, rate, burst } as const

/** Of a new key, in the dashboard. */
export const newKeySettings = { ...keySettings, days } as const

export interface KeySettings extends Allowlists {
  readonly name?: string
  readonly project?: string
  readonly dailyCredits?: number
  readonly rate?: string
  readonly burst?: number
}

type Allowlists = { readonly [Name in keyof typeof allowlists]?: readonly string[] }

/** The change that the lists ask for, with an empty list as no restriction. Throws ApiError where a list cannot be meant. */
const toListChange = ({ networks, methods, origins, ips }: Allowlists, knownNetworks: readonly string[]): KeyChange => {
  checkKnown('network', networks, knownNetworks)
  origins?.forEach(checkOrigin)
  const wrongIp = ips?.find(ip => !isSubnet(ip))
  if (wrongIp !== undefined) {
    const expected = 'expected an address or a subnet, such as 203.0.113.7 or 10.0.0.0/8'
    throw new ApiError(400, 'invalid', `invalid IP address "${wrongIp}"; ${expected}`, 'ips')
  }
  return {
    ...(networks !== undefined && { networks: orNull(networks) }),
    ...(methods !== undefined && { methods: orNull(methods) }),
    ...(origins !== undefined && { origins: orNull(origins) }),
    ...(ips !== undefined && { ips: orNull(ips) }),
  }
}

/** The change that the settings ask for. Methods are the caller's to check: checkKnown(). Throws ApiError. */
export const toKeyChange = (
  { name: keyName, project: keyProject, dailyCredits: credits, rate: rateText, burst: most, ...lists }: KeySettings,
  knownNetworks: readonly string[],
): KeyChange => ({
  ...toListChange(lists, knownNetworks),
  ...(keyName !== undefined && { name: keyName }),
  ...(keyProject !== undefined && { project: keyProject === '' ? null : keyProject }),
  ...(credits !== undefined && { dailyCredits: credits === 0 ? null : credits }),
  ...toRateChange({ rate: rateText, burst: most }),
})

/** A rate without a burst removes the burst that the key had. Throws ApiError. */
export const toRateChange = ({
  rate: rateText,
  burst: most,
}: {
  readonly rate?: string | undefined
  readonly burst?: number | undefined
}): Pick<KeyChange, 'rate' | 'burst'> => {
  if (most !== undefined && (rateText === undefined || rateText === noRateKeyword)) throw invalidField('burst', 'requires a rate')
  if (rateText === undefined) return {}
  if (rateText === noRateKeyword) return { rate: null, burst: null }
  const perSecond = parseRate(rateText)
  if (perSecond !== undefined) return { rate: perSecond, burst: most ?? null }
  const expected = `must be ${formats.rate.description}, or \`${noRateKeyword}\`, not "${rateText}"`
  throw invalidField('rate', [expected, formats.rate.suggest?.(rateText)].filter(part => part !== undefined).join('; '))
}

const orNull = (list: readonly string[]): readonly string[] | null => (list.length === 0 ? null : list)

/** Longer lists, such as that of the methods, are no help in an error. */
const maxListed = 10

/** Throws ApiError for a name in the list that is not known. */
export const checkKnown = (noun: 'network' | 'method', list: readonly string[] | undefined, known: readonly string[]): void => {
  const unknown = list?.find(each => !known.includes(each))
  if (unknown === undefined) return
  const expected =
    known.length === 0 ? 'there are none yet' : known.length <= maxListed ? `expected ${formatAlternatives(known)}` : undefined
  const hint = didYouMean(unknown, known) ?? expected
  throw new ApiError(400, 'invalid', `unknown ${noun} "${unknown}"${hint === undefined ? '' : `; ${hint}`}`, `${noun}s`)
}

/** Browsers send scheme, host and port in `Origin`; any other text would match no page. */
const checkOrigin = (text: string): void => {
  const withoutWildcard = text.replace('://*.', '://x.')
  const origin = URL.canParse(withoutWildcard) ? new URL(withoutWildcard).origin : 'null'
  if (origin === withoutWildcard) return
  const meant = origin === 'null' ? undefined : text === withoutWildcard ? origin : origin.replace('://x.', '://*.')
  const hint = formatSuggestion(meant) ?? 'expected an origin such as https://dapp.example'
  throw new ApiError(400, 'invalid', `invalid origin "${text}"; ${hint}`, 'origins')
}

/** Throws ApiError for a key that cannot be resumed: a revocation cannot be undone. */
export const checkResumable = ({ id, revoked }: KeyRow): void => {
  if (revoked !== undefined) throw new ApiError(409, 'not-active', `key ${id} is revoked for good: create another key`)
}

/** A key as developers and the operator see it. Lists without an entry restrict nothing. */
export const keyJson = (row: KeyRow, now: number) => {
  const {
    id,
    name = '',
    project = '',
    hint,
    networks = [],
    methods = [],
    origins = [],
    ips = [],
    dailyCredits = null,
    rate,
    burst = null,
    verify = [],
  } = row
  return {
    id,
    name,
    project,
    hint,
    networks,
    methods,
    origins,
    ips,
    dailyCredits,
    rate: rate === undefined ? null : formatRate(rate),
    burst,
    verify,
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
  project: { ...text, description: 'Empty: none.' },
  hint: { type: 'string', description: 'The last characters of the key.' },
  networks: listOf(text),
  methods: listOf(text),
  origins: listOf(text),
  ips: listOf(text),
  dailyCredits: countOrNull,
  rate: textOrNull,
  burst: countOrNull,
  verify: { ...listOf(text), description: 'What callers may ask for with the header `Tollgate-Verify`; an operator sets it.' },
  state: { type: 'string', enum: ['active', 'suspended', 'expired', 'revoked'] },
  created: time,
  expires: timeOrNull,
  suspended: timeOrNull,
  revoked: timeOrNull,
} as const
