import type { ObjectSchema } from '../plugin/options-schema.ts'
import { isSubnet } from '../util/address-set.ts'
import { isJsonObject } from '../util/json.ts'
import type { Path } from '../util/json.ts'
import { isHostPort, isReusePortSupported, parseAddress } from './addresses.ts'
import type { Problem } from './problem.ts'
import { tlsSchema } from './tls-options.ts'
import type { YamlFile } from './yaml-file.ts'

const defaultRpcAddress = '127.0.0.1:8080'

/** `listen` of gateway.yaml. */
export const listenSchema = {
  type: 'object',
  description: 'Addresses of the listeners: host:port, with brackets around an IPv6 host; port 0 is any free port.',
  properties: {
    rpc: {
      type: 'string',
      format: 'address',
      default: defaultRpcAddress,
      description: 'JSON-RPC over HTTP and WebSocket; the Host header names the network.',
    },
    portal: {
      type: 'string',
      format: 'address',
      description: 'The dashboard for developers. None by default.',
      examples: ['127.0.0.1:8081'],
    },
    admin: {
      type: 'string',
      format: 'address',
      description:
        'Health, metrics, logs, reload and the page of the operator: /livez, /readyz, /metrics, /log-level, /access-log, /reload, /operator. None by default.',
      examples: ['127.0.0.1:8082'],
    },
    tls: tlsSchema,
    reusePort: {
      type: 'boolean',
      default: false,
      description:
        'Whether each worker listens on the RPC port itself, and the kernel distributes connections (SO_REUSEPORT; Linux and ' +
        'Node.js 22.12 or 23.1), instead of the primary handing them to workers.',
    },
    proxyProtocol: {
      type: 'boolean',
      default: false,
      description:
        'Whether the trusted proxies begin each connection to the RPC listener with a header of the PROXY protocol, version 1 or 2. ' +
        'Requires trustedProxies.',
    },
    trustedProxies: {
      type: 'array',
      items: { type: 'string' },
      default: [],
      description:
        'IP addresses and subnets of the proxies in front of the gateway. Their X-Forwarded-For or Forwarded names the address of the caller.',
      examples: [['10.0.0.0/8', '2001:db8::/32']],
    },
  },
  default: {},
} as const satisfies ObjectSchema

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
