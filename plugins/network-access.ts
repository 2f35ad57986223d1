import { definePlugin, refuse } from '../src/plugin.ts'
import type { Failure } from '../src/plugin.ts'

/** Contract 5.3: the network must be enabled for the key. The key's own lists of methods and origins come on top. */
export default definePlugin({
  name: 'network-access',
  summary: 'Lets a key call only the networks, methods and origins that are enabled for it.',
  options: { type: 'object', properties: {} },
  reads: ['request', 'key'],
  create(_options, { network }) {
    return (call, next) => {
      const { key, request } = call.notes
      const refusal =
        key.networks !== undefined && !key.networks.includes(network.name)
          ? forbid(`the network ${network.name} is not enabled for this API key`, 'network', key.networks)
          : key.methods !== undefined && !key.methods.includes(request.method)
            ? forbid('this API key is not allowed to call this method', 'method', key.methods)
            : key.origins !== undefined && !isAllowedOrigin(call.origin.page, key.origins)
              ? forbid('this API key does not accept calls from this origin', 'origin', key.origins)
              : undefined
      return refusal === undefined ? next(call) : Promise.resolve(refusal)
    }
  },
})

const forbid = (message: string, reason: string, allowed: readonly string[]): Failure =>
  refuse('forbidden', { message, data: { reason, allowed } })

/** An entry is a whole origin, or has `*.` for any sub-domain: `https://*.example.org`. Calls without an origin fail. */
const isAllowedOrigin = (page: string | undefined, allowed: readonly string[]): boolean =>
  page !== undefined &&
  allowed.some(entry => {
    const [scheme, domain] = entry.toLowerCase().split('*', 2) as [string, string?]
    const said = page.toLowerCase()
    return domain === undefined ? said === scheme : said.startsWith(scheme) && said.endsWith(domain)
  })
