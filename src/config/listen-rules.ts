import { isSubnet } from '../util/address-set.ts'
import { isJsonObject } from '../util/json.ts'
import type { Path } from '../util/json.ts'
import { isHostPort, isReusePortSupported, parseAddress } from './addresses.ts'
import { defaultRpcAddress } from './gateway-schema.ts'
import type { Problem } from './problem.ts'
import type { YamlFile } from './yaml-file.ts'

/**
 * A rule of gateway.yaml that its schema cannot express. It reads the file itself, not the checked options, so that all
 * problems show in one run; where a value has the wrong type, the schema has reported it already.
 */
export type GatewayRule = (source: YamlFile) => readonly Problem[]

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

const supportedReusePort: GatewayRule = source => {
  const path = ['listen', 'reusePort']
  if (String(source.valueAt(path)) !== 'true' || isReusePortSupported()) return []
  return [
    source.problemAt(
      path,
      'listen.reusePort requires Linux and Node.js 22.12 or 23.1',
      'remove it: the primary then hands connections to workers',
    ),
  ]
}

/** Options of a listener that does not exist. */
const optionsNeedListener: GatewayRule = source =>
  Object.entries({
    admin: ['token', 'hosts', 'url', 'tls'],
    portal: ['url', 'networkUrl', 'secret', 'smtp', 'oidc', 'webhooks', 'usageWebhook', 'signUp'],
  }).flatMap(([listener, options]) =>
    options
      .filter(option => source.valueAt([listener, option]) !== undefined && source.valueAt(['listen', listener]) === undefined)
      .map(option =>
        source.problemAtKey(
          [listener, option],
          `${listener}.${option} has no effect without listen.${listener}`,
          `add listen.${listener}, for example ${listener === 'admin' ? '127.0.0.1:8082' : '127.0.0.1:8081'}`,
        ),
      ),
  )

/** A problem for each item of the list at the path that is neither an address nor a subnet. */
export const subnetListProblems = (source: YamlFile, path: Path, itemName: string, hint: string): readonly Problem[] => {
  const list = source.valueAt(path)
  return (Array.isArray(list) ? [...list.keys()] : []).flatMap(index => {
    const text = source.textAt([...path, index])
    if (text === undefined || isSubnet(text)) return []
    const message = `${itemName} must be an IP address or a subnet, not ${source.describeValueAt([...path, index])}`
    return [source.problemAt([...path, index], message, hint)]
  })
}

const validTrustedProxies: GatewayRule = source =>
  subnetListProblems(source, ['listen', 'trustedProxies'], 'a trusted proxy', 'for example 10.0.0.7, 10.0.0.0/8 or 2001:db8::/32')

const proxyProtocolNeedsProxies: GatewayRule = source => {
  const path = ['listen', 'proxyProtocol']
  const proxies = source.valueAt(['listen', 'trustedProxies'])
  if (String(source.valueAt(path)) !== 'true' || (Array.isArray(proxies) && proxies.length > 0)) return []
  return [source.problemAt(path, 'listen.proxyProtocol requires listen.trustedProxies', 'name the proxies, for example [10.0.0.0/8]')]
}

/** Rules of `listen`. */
export const listenRules: readonly GatewayRule[] = [
  distinctAddresses,
  supportedReusePort,
  optionsNeedListener,
  validTrustedProxies,
  proxyProtocolNeedsProxies,
]
