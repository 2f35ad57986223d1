import { AddressSet, directStage, getOrCreate } from '../src/plugin/internal.ts'
import { definePlugin, refuse } from '../src/plugin/plugin.ts'
import type { Failure, Key, Origin } from '../src/plugin/plugin.ts'

/** The network must be enabled for the key (contract 5.3); a key may also have lists of allowed methods, origins and IP addresses. */
export default definePlugin({
  name: 'network-access',
  summary: 'Refuses calls to networks, of methods, and from origins and IP addresses that the API key does not allow.',
  options: { type: 'object', properties: {} },
  reads: ['request', 'key', 'account'],
  create(_options, { methods, network, usage }) {
    const isAllowed = (method: string, allowed: readonly string[]): boolean =>
      allowed.includes(method) || methods.get(method)?.discovers === true
    /** By what is known of a call without its caller. */
    const refuseCall = (key: Key, method: string): Failure | undefined => {
      if (key.networks?.includes(network.name) === false)
        return forbidden(`the network ${network.name} is not enabled for this API key`, 'network', key.networks)
      if (key.methods !== undefined && !isAllowed(method, key.methods))
        return forbidden('this API key is not allowed to call this method', 'method', key.methods)
      return undefined
    }
    return directStage({
      offers: (method, { key } = {}) => key?.methods === undefined || isAllowed(method, key.methods),
      handle(call, next) {
        const { key, request } = call.context
        const refusal = refuseCall(key, request.method) ?? refuseCaller(key, call.origin)
        if (refusal === undefined) return next(call)
        // The plugin that charges, and records all other calls, is below.
        const method = methods.get(request.method)
        usage.record({ call, reply: refusal, method, network: network.name, day: undefined, credits: 0 })
        return refusal
      },
      events: { refuse: (key, origin) => refuseCall(key, 'eth_subscribe') ?? refuseCaller(key, origin) },
      explain({ lookup, method }) {
        if (lookup?.kind !== 'granted') return { text: ['the key may be limited to networks, methods, origins and IP addresses'] }
        const { key } = lookup
        const refusal = refuseCall(key, method)
        if (refusal !== undefined) return { text: [refusal.error.message], ends: 'refused' }
        return {
          text: [
            'the key allows this network and this method',
            ...(key.origins === undefined ? [] : [`the Origin header must be one of ${key.origins.join(', ')}`]),
            ...(key.ips === undefined ? [] : [`the caller must have one of the IP addresses ${key.ips.join(', ')}`]),
          ],
        }
      },
    })
  },
})

const refuseCaller = ({ origins, ips }: Key, { originHeader, ip }: Origin): Failure | undefined => {
  if (origins !== undefined && !isAllowedOrigin(originHeader, origins))
    return forbidden('this API key does not accept calls from this origin', 'origin', origins)
  if (ips !== undefined && !getOrCreate(addressSets, ips, newAddressSet).has(ip)) return refuseAddress(ip, ips)
  return undefined
}

/** By the list of a key, which stays the same object while the key is cached. */
const addressSets = new WeakMap<readonly string[], AddressSet>()

const newAddressSet = (list: readonly string[]): AddressSet => new AddressSet(list)

const refuseAddress = (ip: string, allowed: readonly string[]): Failure =>
  forbidden(`this API key does not accept calls from the IP address ${ip === '' ? 'of the caller, which is not known' : ip}`, 'ip', allowed)

const forbidden = (message: string, reason: string, allowed: readonly string[]): Failure =>
  refuse('forbidden', { message, data: { reason, allowed } })

/** An entry is an origin, or has `*.` for any subdomain: `https://*.example.org`. A call without an Origin header is refused. */
const isAllowedOrigin = (origin: string | undefined, allowed: readonly string[]): boolean =>
  origin !== undefined &&
  allowed.some(entry => {
    const [scheme, domain] = entry.toLowerCase().split('*', 2) as [string, string?]
    const lowerCaseOrigin = origin.toLowerCase()
    return domain === undefined ? lowerCaseOrigin === scheme : lowerCaseOrigin.startsWith(scheme) && lowerCaseOrigin.endsWith(domain)
  })
