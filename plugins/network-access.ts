import { definePlugin, refuse } from '../src/plugin/plugin.ts'
import type { Failure } from '../src/plugin/plugin.ts'

/** Contract 5.3: the network must be enabled for the key. The key's own lists of methods and origins come on top. */
export default definePlugin({
  name: 'network-access',
  summary: 'Lets a key call only the networks, methods and origins that are enabled for it.',
  options: { type: 'object', properties: {} },
  reads: ['request', 'key'],
  create(_options, { network }) {
    return (call, next) => {
      const { key, request } = call.context
      const refusal =
        key.networks !== undefined && !key.networks.includes(network.name)
          ? forbidden(`the network ${network.name} is not enabled for this API key`, 'network', key.networks)
          : key.methods !== undefined && !key.methods.includes(request.method)
            ? forbidden('this API key is not allowed to call this method', 'method', key.methods)
            : key.origins !== undefined && !isAllowedOrigin(call.origin.originHeader, key.origins)
              ? forbidden('this API key does not accept calls from this origin', 'origin', key.origins)
              : undefined
      return refusal === undefined ? next(call) : Promise.resolve(refusal)
    }
  },
})

const forbidden = (message: string, reason: string, allowed: readonly string[]): Failure =>
  refuse('forbidden', { message, data: { reason, allowed } })

/** An entry is a whole origin, or has `*.` for any sub-domain: `https://*.example.org`. Calls without an origin fail. */
const isAllowedOrigin = (origin: string | undefined, allowed: readonly string[]): boolean =>
  origin !== undefined &&
  allowed.some(entry => {
    const [scheme, domain] = entry.toLowerCase().split('*', 2) as [string, string?]
    const lowerCaseOrigin = origin.toLowerCase()
    return domain === undefined ? lowerCaseOrigin === scheme : lowerCaseOrigin.startsWith(scheme) && lowerCaseOrigin.endsWith(domain)
  })
