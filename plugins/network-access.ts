import { AddressSet, definePlugin, directStage, getOrCreate, refuse } from '../src/plugin/plugin.ts'
import type { CallContext, Failure, Key, Origin } from '../src/plugin/plugin.ts'

/** The network must be enabled for the key (contract 5.3); a key may also have lists of allowed methods, origins and IP addresses. */
export default definePlugin({
  name: 'network-access',
  summary: 'Refuses calls to networks, of methods, and from origins and IP addresses that the API key does not allow.',
  options: { type: 'object', properties: {} },
  reads: ['request', 'key', 'account'],
  create(_options, { methods, network, usage }) {
    const offers = (method: string, { key }: Partial<CallContext> = {}): boolean =>
      key?.methods === undefined || key.methods.includes(method) || methods.get(method)?.discovers === true
    return directStage({
      offers,
      handle(call, next) {
        const { account, key, request } = call.context
        const refusal = refuseCall(key, network.name, offers(request.method, call.context)) ?? refuseCaller(key, call.origin)
        if (refusal === undefined) return next(call)
        // The plugin that charges, and counts all other calls, is below.
        const method = methods.get(request.method) === undefined ? 'other' : request.method
        const uncharged = { outcome: refusal.kind, forwarded: false, day: undefined, calls: 1, credits: 0 } as const
        usage.count({ account: account.id, key: key.id, network: network.name, method, ...uncharged })
        return refusal
      },
      events: {
        refuse: (key, origin) => refuseCall(key, network.name, offers('eth_subscribe', { key })) ?? refuseCaller(key, origin),
      },
      explain({ lookup, method }) {
        if (lookup?.kind !== 'granted') return { text: ['the key may be limited to networks, methods, origins and IP addresses'] }
        const { key } = lookup
        const refusal = refuseCall(key, network.name, offers(method, { key }))
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

/** By what is known of a call without its caller. */
const refuseCall = ({ networks, methods }: Key, network: string, isMethodAllowed: boolean): Failure | undefined =>
  networks !== undefined && !networks.includes(network)
    ? forbidden(`the network ${network} is not enabled for this API key`, 'network', networks)
    : methods !== undefined && !isMethodAllowed
      ? forbidden('this API key is not allowed to call this method', 'method', methods)
      : undefined

const refuseCaller = ({ origins, ips }: Key, { originHeader, ip }: Origin): Failure | undefined =>
  origins !== undefined && !isAllowedOrigin(originHeader, origins)
    ? forbidden('this API key does not accept calls from this origin', 'origin', origins)
    : ips !== undefined && !getOrCreate(addressSets, ips, newAddressSet).has(ip)
      ? refuseAddress(ip, ips)
      : undefined

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
