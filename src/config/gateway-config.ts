import { existsSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { readKeyFile } from '../services/jwt/key-file.ts'
import { contrastOf, formatColor, minTextContrast, parseColor, withContrast } from '../util/colors.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isDirectory } from '../util/files.ts'
import { isJsonObject } from '../util/json.ts'
import { isHostPort, parseAddress } from './addresses.ts'
import type { OptionsLocation } from './ajv-errors.ts'
import { checkOptions } from './check-options.ts'
import { filesOnDisk } from './config-files.ts'
import type { FileTexts } from './config-files.ts'
import type { EffectiveFile } from './effective-file.ts'
import { parseDuration } from './formats.ts'
import { defaultRpcAddress, gatewaySchema } from './gateway-options.ts'
import { networkSchema } from './network-options.ts'
import { unsetVariableProblems } from './optional-variables.ts'
import type { Problem } from './problem.ts'
import { parseStoreAddress } from './store-address.ts'
import type { GatewayConfig } from './types.ts'
import type { Env } from './variables.ts'
import { checkTls } from './tls-check.ts'
import type { TlsCheck } from './tls-check.ts'
import { parseYamlFile, readYamlFile } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'

export interface GatewayReadResult extends TlsCheck {
  readonly config: GatewayConfig | undefined
  readonly effective?: EffectiveFile
}

/** Without a section `networks`: each network is a file. */
const networkFile = {
  name: 'networks/NAME.yaml',
  schema: { type: 'object', properties: { ...networkSchema.properties, networks: networkSchema } },
} as const satisfies OptionsLocation['otherFile']

const gatewayFileName = 'gateway.yaml'

/** Reads `<dir>/gateway.yaml`. The config is present exactly when there are no problems. */
export const readGatewayConfig = (dir: string, env: Env, files = filesOnDisk): GatewayReadResult => {
  const source = readYamlFile(join(dir, gatewayFileName), env, files)
  if (source.value === undefined) return { config: undefined, problems: missingFileProblems(source), warnings: [] }
  const { options, effective, problems: schemaProblems, warnings: schemaWarnings } = checkGatewayOptions(source)
  const ruleProblems = gatewayRules.flatMap(rule => rule(source))
  const { problems: tlsProblems, warnings: tlsWarnings, ...tlsCheck } = checkTls(source)
  const problems = [...source.problems, ...schemaProblems, ...ruleProblems, ...tlsProblems, ...unsetVariableProblems(source)]
  const warnings = [...schemaWarnings, ...tlsWarnings]
  if (options === undefined || problems.length > 0) return { config: undefined, problems, warnings }

  const config = toGatewayConfig(options)
  const value = effective()
  return { config, problems, warnings, ...tlsCheck, ...(isJsonObject(value) && { effective: { source, value, omitted: [] } }) }
}

/** Of the texts of files that a gateway has accepted: the files that gateway.yaml names may be gone by now. */
export const parseAcceptedGatewayConfig = (texts: FileTexts, dir: string, env: Env): GatewayConfig => {
  const source = parseYamlFile(texts[gatewayFileName] ?? '', join(dir, gatewayFileName), env)
  const { options, problems } = checkGatewayOptions(source)
  if (options === undefined || source.problems.length + problems.length > 0)
    throw new Error('gateway.yaml, as the gateway has it, is not valid for the version of this process')
  return toGatewayConfig(options)
}

const checkGatewayOptions = (source: YamlFile) =>
  checkOptions({ source, namePath: [], owner: '', schema: gatewaySchema, otherFile: networkFile })

type CheckedGatewayOptions = NonNullable<ReturnType<typeof checkGatewayOptions>['options']>

const toGatewayConfig = (options: CheckedGatewayOptions): GatewayConfig => ({
  ...options,
  plans: Object.fromEntries(Object.entries(options.plans).map(([name, plan]) => [name, { name, ...plan }])),
  workers: options.workers === 'auto' ? availableParallelism() : options.workers,
})

export const missingDirectoryHint = 'give the directory of the configuration with --config DIR, or write one with `tollgate init`'

const missingFileProblems = ({ path, problems, isEmpty }: YamlFile): readonly Problem[] => {
  const hint = !isDirectory(dirname(path))
    ? missingDirectoryHint
    : existsSync(path.replace(/yaml$/, 'yml'))
      ? 'rename gateway.yml to gateway.yaml'
      : 'it requires `store` and `plans`: copy the gateway.yaml that ships with the gateway, or that `tollgate init --config NEW_DIR` writes'
  const isMissing = isEmpty || problems.some(({ message }) => message === 'no such file')
  return isMissing ? problems.map(problem => ({ ...problem, hint })) : problems
}

/**
 * A rule of gateway.yaml that its schema cannot express. It reads the file itself, not the checked options, so that all
 * problems show in one run; where a value has the wrong type, the schema has reported it already.
 */
type GatewayRule = (source: YamlFile) => readonly Problem[]

const distinctAddresses: GatewayRule = source => {
  const listen = source.valueAt(['listen'])
  const listenerByAddress = new Map<unknown, string>()
  return Object.entries({ rpc: defaultRpcAddress, ...(isJsonObject(listen) && listen) }).flatMap(([listener, text]) => {
    const other = listenerByAddress.get(text)
    listenerByAddress.set(text, listener)
    if (other === undefined || typeof text !== 'string' || !isHostPort(text) || parseAddress(text).port === 0) return []
    return [source.problemAt(['listen', listener], `listen.${listener} has the same address as listen.${other}`)]
  })
}

/** The path of an embedded store is a directory, which is created if it does not exist. */
const storePathIsDirectory: GatewayRule = source => {
  const address = parseStoreAddress(source.textAt(['store']) ?? '', dirname(source.path))
  const paths = [address?.from, address].flatMap(each => (each?.kind === 'lmdb' ? [each.path] : []))
  if (paths.every(path => isDirectory(nearestExisting(path)))) return []
  return [source.problemAt(['store'], 'the path of the store is a file, not a directory', 'lmdb:PATH names a directory')]
}

/** The folder of a log is never created: a missing one is more often a typo, or a disk that is not mounted. */
const accessLogFileInFolder: GatewayRule = source => {
  const path = ['accessLog', 'file']
  const text = source.textAt(path)
  if (text === undefined || text === '' || text === 'stdout') return []
  const file = resolve(dirname(source.path), text)
  if (isDirectory(file)) return [source.problemAt(path, 'accessLog.file is a directory, not a file', 'add the name of a file')]
  if (isDirectory(dirname(file))) return []
  return [source.problemAt(path, 'the directory of accessLog.file does not exist', 'create the directory, or correct the path')]
}

const nearestExisting = (path: string): string => (existsSync(path) || dirname(path) === path ? path : nearestExisting(dirname(path)))

/** A day is sent up to 6 hours after its end, with all of its hours. */
const minSentRetentionMs = 2 * 86_400_000

const usageWebhookRetention: GatewayRule = source => {
  const path = ['usage', 'retention']
  const retentionMs = parseDuration(source.textAt(path) ?? '')
  if (retentionMs === undefined || retentionMs >= minSentRetentionMs || source.valueAt(['portal', 'usageWebhook']) === undefined) return []
  const message = `portal.usageWebhook requires usage.retention of at least 2d, not ${source.describeValueAt(path)}`
  return [source.problemAt(path, message, 'a day is sent when it is over, and must still be stored then')]
}

const operatorAlertsHaveReceiver: GatewayRule = source => {
  const path = ['portal', 'operatorAlerts']
  const options = source.valueAt(path)
  if (!isJsonObject(options) || options['severity'] === undefined) return []
  if (options['mail'] !== undefined || options['webhooks'] !== undefined) return []
  return [
    source.problemAt(path, 'portal.operatorAlerts tells nobody', 'add `mail` with addresses, or `webhooks`; `{}` if nobody is to be told'),
  ]
}

const distinctTokens: GatewayRule = source => {
  const tokens = source.valueAt(['admin', 'tokens'])
  const holderByToken = new Map([[source.textAt(['admin', 'token']), 'admin.token']])
  return Object.keys(isJsonObject(tokens) ? tokens : {}).flatMap(name => {
    const path = ['admin', 'tokens', name]
    const token = source.textAt(path)
    const holder = holderByToken.get(token)
    holderByToken.set(token, path.join('.'))
    if (holder === undefined || !token) return []
    return [
      source.problemAt(path, `admin.tokens.${name} is the same token as ${holder}`, 'changes are recorded under the name of the token'),
    ]
  })
}

const knownSignUpPlan: GatewayRule = source => {
  const path = ['portal', 'signUp', 'plan']
  const plan = source.textAt(path)
  const plans = source.valueAt(['plans'])
  const names = isJsonObject(plans) ? Object.keys(plans) : []
  if (plan === undefined || names.length === 0 || names.includes(plan)) return []
  return [source.problemAt(path, `portal.signUp.plan must be one of plans: ${names.join(', ')}`, didYouMean(plan, names))]
}

const readableKeyFile: GatewayRule = source => {
  const path = ['jwt', 'keyFile']
  const text = source.textAt(path)
  const read = text ? readKeyFile(resolve(dirname(source.path), text)) : undefined
  return read === undefined || 'keys' in read ? [] : [source.problemAt(path, `jwt.keyFile: ${read.message}`, read.hint)]
}

/** Each page of the dashboard loads it. */
const maxLogoBytes = 65_536

const logoIsImage: GatewayRule = source => {
  const path = ['portal', 'brand', 'logo']
  const text = source.textAt(path)
  if (text === undefined || text === '') return []
  const report = (message: string, hint: string) => [source.problemAt(path, `portal.brand.logo ${message}`, hint)]
  if (!/\.(svg|png)$/i.test(text)) return report('must be an SVG or PNG file', 'browsers show both at any size')
  const stats = statSync(resolve(dirname(source.path), text), { throwIfNoEntry: false })
  if (stats?.isFile() !== true) return report('is no file', 'the path is relative to gateway.yaml')
  if (stats.size > maxLogoBytes) return report(`has ${stats.size} bytes, more than ${maxLogoBytes}`, 'each page loads it: make it smaller')
  return []
}

const readableAccent: GatewayRule = source => {
  const path = ['portal', 'brand', 'accent']
  const color = parseColor(source.textAt(path) ?? '')
  if (color === undefined) return []
  const white = [255, 255, 255] as const
  const contrast = contrastOf(color, white)
  if (contrast >= minTextContrast) return []
  const message = `portal.brand.accent has a contrast of ${contrast.toFixed(1)} to white, less than the ${minTextContrast} of WCAG AA`
  return [source.problemAt(path, message, `the nearest darker color is "${formatColor(withContrast(color, [0, 0, 0], () => [white]))}"`)]
}

const gatewayRules: readonly GatewayRule[] = [
  distinctAddresses,
  storePathIsDirectory,
  accessLogFileInFolder,
  usageWebhookRetention,
  operatorAlertsHaveReceiver,
  distinctTokens,
  knownSignUpPlan,
  readableKeyFile,
  logoIsImage,
  readableAccent,
]
