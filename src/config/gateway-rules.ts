import { availableParallelism } from 'node:os'
import { parseDuration, parseSize } from './formats.ts'
import { isAddress, toAddress } from './address.ts'
import { isMap, isName } from './path.ts'
import type { Problem } from './problem.ts'
import type { Source } from './source.ts'
import { parseStore } from './store.ts'
import { describeFound } from './words.ts'

/**
 * A rule of gateway.yaml that its schema cannot say. It looks at the file itself, not at checked options, so that all
 * problems show in one run; where a value has the wrong type, the schema has told so already.
 */
export type Rule = (source: Source) => readonly Problem[]

export const defaultRpc = '127.0.0.1:8080'

const addresses: Rule = source =>
  ['rpc', 'portal', 'admin'].flatMap(door => {
    const path = ['listen', door]
    const text = source.textAt(path)
    if (text === undefined || isAddress(text)) return []
    const message = `listen.${door} must be host:port, not ${describeFound(source, path)}`
    return [source.problem(path, message, 'for example 127.0.0.1:8080, or [::1]:8080')]
  })

const differentAddresses: Rule = source => {
  const listen = source.at(['listen'])
  const taken = new Map<unknown, string>()
  return Object.entries({ rpc: defaultRpc, ...(isMap(listen) && listen) }).flatMap(([door, text]) => {
    const other = taken.get(text)
    taken.set(text, door)
    if (other === undefined || typeof text !== 'string' || !isAddress(text) || toAddress(text).port === 0) return []
    return [source.problem(['listen', door], `listen.${door} has the same address as listen.${other}`)]
  })
}

const knownStore: Rule = source => {
  const text = source.textAt(['store'])
  if (text === undefined || parseStore(text, '') !== undefined) return []
  // What follows the scheme may hold a password; what comes from the environment is not printed at all.
  const scheme = source.texts.has('/store') ? '' : (/^[a-z]+(?=:)/i.exec(text)?.[0] ?? '')
  const hint = scheme.startsWith('redis')
    ? 'all of it: redis://USER:PASSWORD@HOST:PORT/DATABASE, special characters as %XX'
    : 'for example lmdb:../data, or redis://127.0.0.1:6379'
  const found = ['', 'lmdb', 'redis', 'rediss'].includes(scheme) ? '' : `: this version has no ${scheme} store`
  return [source.problem(['store'], `store must be lmdb:PATH or redis://HOST:PORT${found}`, hint)]
}

const someWorkers: Rule = source => {
  const value = source.at(['workers'])
  if (value === undefined || value === '' || workersOf(value) !== undefined) return []
  return [source.problem(['workers'], `workers must be an integer above 0, or auto, not ${describeFound(source, ['workers'])}`)]
}

/** `auto`, or a number, which from the environment comes as text. */
export const workersOf = (value: unknown): number | undefined => {
  if (value === 'auto') return availableParallelism()
  const number = typeof value === 'string' ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number > 0 ? number : undefined
}

const namedPlans: Rule = source => {
  const plans = source.at(['plans'])
  if (plans === null || (isMap(plans) && Object.keys(plans).length === 0)) {
    const hint = 'for example core: { dailyCredits: 3000000 }'
    return [source.problemAtKey(['plans'], 'plans must hold at least one plan', hint)]
  }
  const wrong = Object.keys(isMap(plans) ? plans : {}).filter(name => !isName(name))
  return wrong.map(name => source.problemAtKey(['plans', name], `the plan name \`${name}\` must be kebab-case`))
}

const somethingLarge: Rule = source =>
  [['memory'], ...['body', 'frame', 'batchReply', 'inFlight'].map(limit => ['limits', limit])].flatMap(path => {
    const text = source.textAt(path)
    if (text === undefined || parseSize(text) !== 0) return []
    return [source.problem(path, `${path.join('.')} must be more than nothing, not ${describeFound(source, path)}`)]
  })

const somethingKept: Rule = source => {
  const path = ['usage', 'keep']
  const time = parseDuration(source.textAt(path) ?? '')
  if (time === undefined || time >= parseDuration('1d')!) return []
  return [source.problem(path, `usage.keep must be at least 1d, not ${describeFound(source, path)}`)]
}

export const gatewayRules: readonly Rule[] = [
  addresses,
  differentAddresses,
  knownStore,
  someWorkers,
  namedPlans,
  somethingLarge,
  somethingKept,
]
