import { formats, parseDuration, parseRate } from '../config/formats.ts'
import { networkNames } from '../config/load.ts'
import { declaredMethodNames } from '../config/method-tables.ts'
import type { KeyChange } from '../store/store.ts'
import { isSubnet } from '../util/address-set.ts'
import { dayMs } from '../util/dates.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { formatAlternatives, formatHint, parsePositiveInteger, readCredits, readList, storeOptions } from './args.ts'
import { CommandError, UsageError } from './command.ts'

/** In place of a list: no restriction. */
export const allKeyword = 'all'

/** In place of a duration: the key does not expire. */
export const neverKeyword = 'never'

/** In place of a number: no limit but that of the account. */
export const noLimitKeyword = 'none'

/** What `keys add` and `keys set` can say of a key. */
export const keyOptions = {
  networks: {
    type: 'string',
    placeholder: 'A,B',
    description: 'The networks that the key may call; `all`, and without it: every network.',
  },
  methods: { type: 'string', placeholder: 'A,B', description: 'The methods that the key may call; `all`, and without it: every method.' },
  origins: {
    type: 'string',
    placeholder: 'A,B',
    description: 'The web pages that may use the key, by origin, such as https://dapp.example; `all`, and without it: every page.',
  },
  ips: {
    type: 'string',
    placeholder: 'A,B',
    description: 'The IP addresses and subnets that may use the key, such as 203.0.113.7,10.0.0.0/8; `all`, and without it: every address.',
  },
  credits: {
    type: 'string',
    placeholder: 'N',
    description: 'Daily credits that the key may use of those of its account; `none`, and without it: all of them.',
  },
  rate: {
    type: 'string',
    placeholder: 'RATE',
    description:
      'Calls that the key may make in a time, such as 10/s or 600/m, in networks with the plugin `rate-limit`; `none`, and without it: ' +
      'as many as its account.',
  },
  burst: {
    type: 'string',
    placeholder: 'N',
    description: 'With --rate: calls that may come at once; without it, as many as the rate allows in a second.',
  },
  expires: {
    type: 'string',
    placeholder: 'DURATION',
    description: 'After this time from now the key is refused, such as 30d or 12h; `never`, and without it: it does not expire.',
  },
  ...storeOptions,
} as const

type KeyOptionValues = { readonly [K in Exclude<keyof typeof keyOptions, keyof typeof storeOptions>]?: string | undefined }

/** The change that the options ask for. `now` in ms since 1970. */
export const readKeyChange = (values: KeyOptionValues, now: number): KeyChange => {
  const networks = readAllowlist('networks', values.networks)
  const methods = readAllowlist('methods', values.methods)
  const origins = readAllowlist('origins', values.origins)
  const ips = readAllowlist('ips', values.ips)
  const dailyCredits = readCredits(values.credits, noLimitKeyword)
  const expires = readExpiry(values.expires, now)
  return {
    ...(networks !== undefined && { networks }),
    ...(methods !== undefined && { methods }),
    ...(origins !== undefined && { origins }),
    ...(ips !== undefined && { ips }),
    ...(dailyCredits !== undefined && { dailyCredits }),
    ...(expires !== undefined && { expires }),
    ...readRate(values),
  }
}

/** A rate without a burst removes the burst that the key had. */
const readRate = ({ rate: text, burst }: KeyOptionValues): Pick<KeyChange, 'rate' | 'burst'> => {
  if (text === undefined && burst === undefined) return {}
  if (text === undefined || (text === noLimitKeyword && burst !== undefined))
    throw new UsageError('--burst requires a rate: --rate 10/s, for example')
  if (text === noLimitKeyword) return { rate: null, burst: null }
  const rate = parseRate(text)
  if (rate === undefined)
    throw new UsageError(
      `--rate must be ${formats.rate.description}, or \`${noLimitKeyword}\`, not "${text}"${formatHint(formats.rate.suggest?.(text))}`,
    )
  return { rate, burst: burst === undefined ? null : readBurst(burst) }
}

const readBurst = (text: string): number => {
  const burst = parsePositiveInteger(text)
  if (burst !== undefined) return burst
  throw new UsageError(`--burst must be an integer greater than 0, not "${text}"`)
}

/** Null allows everything. */
const readAllowlist = (name: string, text: string | undefined): readonly string[] | null | undefined =>
  text?.trim() === allKeyword ? null : readList(name, text)

/** Null never expires. */
const readExpiry = (text: string | undefined, now: number): number | null | undefined => {
  if (text === undefined) return undefined
  if (text === neverKeyword) return null
  return now + readPositiveDuration('expires', text, `, or \`${neverKeyword}\``)
}

/** A longer one would end after the last date that there is. */
const maxDays = 36_500

/** In ms. */
export const readPositiveDuration = (option: string, text: string, alternative = ''): number => {
  const durationMs = parseDuration(text)
  if (durationMs !== undefined && durationMs > maxDays * dayMs)
    throw new UsageError(`--${option} must be at most ${maxDays}d, not "${text}"`)
  if (durationMs !== undefined && durationMs > 0) return durationMs
  throw new UsageError(`--${option} must be a duration such as 30d or 12h${alternative}, not "${text}"`)
}

export const checkAllowlists = ({ networks, origins, ips }: KeyChange, dir: string): void => {
  checkNetworks(networks ?? [], dir)
  checkOrigins(origins ?? [])
  const wrongAddress = ips?.find(text => !isSubnet(text))
  if (wrongAddress !== undefined)
    throw new CommandError(`invalid IP address "${wrongAddress}"; expected an address or a subnet, such as 203.0.113.7 or 10.0.0.0/8`)
}

const checkNetworks = (requested: readonly string[], dir: string): void => {
  const known = networkNames(dir)
  const unknown = requested.find(name => !known.includes(name))
  if (unknown === undefined) return
  const hint = didYouMean(unknown, known) ?? (known.length === 0 ? 'there are none yet' : `expected ${formatAlternatives(known)}`)
  throw new CommandError(`unknown network "${unknown}"${formatHint(hint)}`)
}

/** A warning only: the `params` plugin of a network may add methods that no table has. */
export const warnUnknownMethods = (methods: readonly string[], dir: string, warn: (line: string) => void): void => {
  const known = declaredMethodNames(dir)
  for (const name of known.length === 0 ? [] : methods.filter(method => !known.includes(method))) {
    warn(`warning: no method table has "${name}"${formatHint(didYouMean(name, known))}`)
  }
}

/** Browsers send scheme, host and port in `Origin`; any other text would match no page. */
const checkOrigins = (origins: readonly string[]): void => {
  for (const text of origins) {
    const origin = URL.canParse(text) ? new URL(text).origin : undefined
    if (origin === text) continue
    const hasNoOrigin = origin === undefined || origin === 'null'
    const hint = hasNoOrigin ? 'expected an origin such as https://dapp.example' : `did you mean \`${origin}\`?`
    throw new CommandError(`invalid origin "${text}"; ${hint}`)
  }
}
