import { availableParallelism } from 'node:os'
import { parseDuration, parseSize } from './formats.ts'
import { isHostPort, parseAddress } from './addresses.ts'
import { isObject, isKebabCase } from './path.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'
import { parseStoreAddress } from './store-address.ts'
import { describeValue } from './describe.ts'

/**
 * A rule of gateway.yaml that its schema cannot say. It looks at the file itself, not at checked options, so that all
 * problems show in one run; where a value has the wrong type, the schema has told so already.
 */
export type GatewayRule = (source: YamlFile) => readonly Problem[]

export const defaultRpcAddress = '127.0.0.1:8080'

const validAddresses: GatewayRule = source =>
  ['rpc', 'portal', 'admin'].flatMap(door => {
    const path = ['listen', door]
    const text = source.textAt(path)
    if (text === undefined || isHostPort(text)) return []
    const message = `listen.${door} must be host:port, not ${describeValue(source, path)}`
    return [source.problemAt(path, message, 'for example 127.0.0.1:8080, or [::1]:8080')]
  })

const distinctAddresses: GatewayRule = source => {
  const listen = source.valueAt(['listen'])
  const listenerByAddress = new Map<unknown, string>()
  return Object.entries({ rpc: defaultRpcAddress, ...(isObject(listen) && listen) }).flatMap(([door, text]) => {
    const other = listenerByAddress.get(text)
    listenerByAddress.set(text, door)
    if (other === undefined || typeof text !== 'string' || !isHostPort(text) || parseAddress(text).port === 0) return []
    return [source.problemAt(['listen', door], `listen.${door} has the same address as listen.${other}`)]
  })
}

const supportedStore: GatewayRule = source => {
  const text = source.textAt(['store'])
  if (text === undefined || parseStoreAddress(text, '') !== undefined) return []
  // What follows the scheme may hold a password; what comes from the environment is not printed at all.
  const scheme = source.expandedTexts.has('/store') ? '' : (/^[a-z]+(?=:)/i.exec(text)?.[0] ?? '')
  const hint = scheme.startsWith('redis')
    ? 'all of it: redis://USER:PASSWORD@HOST:PORT/DATABASE, special characters as %XX'
    : 'for example lmdb:../data, or redis://127.0.0.1:6379'
  const found = ['', 'lmdb', 'redis', 'rediss'].includes(scheme) ? '' : `: this version has no ${scheme} store`
  return [source.problemAt(['store'], `store must be lmdb:PATH or redis://HOST:PORT${found}`, hint)]
}

const validWorkerCount: GatewayRule = source => {
  const value = source.valueAt(['workers'])
  if (value === undefined || value === '' || parseWorkerCount(value) !== undefined) return []
  return [source.problemAt(['workers'], `workers must be an integer above 0, or auto, not ${describeValue(source, ['workers'])}`)]
}

/** `auto`, or a number, which from the environment comes as text. */
export const parseWorkerCount = (value: unknown): number | undefined => {
  if (value === 'auto') return availableParallelism()
  const number = typeof value === 'string' ? Number(value) : value
  return typeof number === 'number' && Number.isSafeInteger(number) && number > 0 ? number : undefined
}

const validPlanNames: GatewayRule = source => {
  const plans = source.valueAt(['plans'])
  if (plans === null || (isObject(plans) && Object.keys(plans).length === 0)) {
    const hint = 'for example core: { dailyCredits: 3000000 }'
    return [source.problemAtKey(['plans'], 'plans must hold at least one plan', hint)]
  }
  const wrong = Object.keys(isObject(plans) ? plans : {}).filter(name => !isKebabCase(name))
  return wrong.map(name => source.problemAtKey(['plans', name], `the plan name \`${name}\` must be kebab-case`))
}

const positiveSizes: GatewayRule = source =>
  [['memory'], ...['body', 'frame', 'batchReply', 'inFlight'].map(limit => ['limits', limit])].flatMap(path => {
    const text = source.textAt(path)
    if (text === undefined || parseSize(text) !== 0) return []
    return [source.problemAt(path, `${path.join('.')} must be greater than 0, not ${describeValue(source, path)}`)]
  })

const minUsageRetention: GatewayRule = source => {
  const path = ['usage', 'retention']
  const retentionMs = parseDuration(source.textAt(path) ?? '')
  if (retentionMs === undefined || retentionMs >= parseDuration('1d')!) return []
  return [source.problemAt(path, `usage.retention must be at least 1d, not ${describeValue(source, path)}`)]
}

export const gatewayRules: readonly GatewayRule[] = [
  validAddresses,
  distinctAddresses,
  supportedStore,
  validWorkerCount,
  validPlanNames,
  positiveSizes,
  minUsageRetention,
]
