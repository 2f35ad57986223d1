import { isJsonObject } from '../util/json.ts'
import type { GatewayConfig } from '../config/types.ts'
import { urlOf } from '../server/http-server.ts'
import type { NetworkStatus } from '../server/network-status.ts'

/** The admin listener answers from memory, except that it first polls nodes that no call keeps polled. */
const statusTimeoutMs = 5_000

/** Addresses that listen on all interfaces; a client reaches them on the loopback interface. */
const loopbackByWildcard: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** The URL of the admin listener on this machine; undefined without one, or with a port that only the running gateway knows. */
export const adminUrl = ({ listen: { admin } }: GatewayConfig): string | undefined =>
  admin === undefined || admin.port === 0 ? undefined : urlOf(loopbackByWildcard[admin.host] ?? admin.host, admin.port)

/** Requests a path of the admin listener. Rejects when nothing answers in time. */
export const requestAdmin = (url: string, path: string): Promise<Response> =>
  fetch(`${url}${path}`, { signal: AbortSignal.timeout(statusTimeoutMs) })

/** What the running gateway of this configuration says of a network; undefined when none answers. */
export const fetchNetworkStatus = async (config: GatewayConfig, network: string): Promise<NetworkStatus | undefined> => {
  const url = adminUrl(config)
  if (url === undefined) return undefined
  try {
    const body: unknown = await (await requestAdmin(url, '/readyz?verbose')).json()
    const networks: unknown = isJsonObject(body) ? body['networks'] : undefined
    const found = Array.isArray(networks) ? networks.find(each => isJsonObject(each) && each['name'] === network) : undefined
    return found as NetworkStatus | undefined // /readyz?verbose of the same version
  } catch {
    return undefined
  }
}
