import { isJsonObject } from '../util/json.ts'
import type { GatewayConfig } from '../config/types.ts'
import { urlOf } from '../server/http-server.ts'
import type { NetworkStatus } from '../server/network-status.ts'

/** The admin listener answers from memory, except that it first polls nodes that no call keeps polled. */
const statusTimeoutMs = 5_000

/** What the running gateway of this configuration says of a network; undefined when none answers. */
export const fetchNetworkStatus = async ({ listen: { admin } }: GatewayConfig, network: string): Promise<NetworkStatus | undefined> => {
  if (admin === undefined || admin.port === 0) return undefined
  try {
    const response = await fetch(`${urlOf(admin.host, admin.port)}/readyz?verbose`, { signal: AbortSignal.timeout(statusTimeoutMs) })
    const body: unknown = await response.json()
    const networks: unknown = isJsonObject(body) ? body['networks'] : undefined
    const found = Array.isArray(networks) ? networks.find(each => isJsonObject(each) && each['name'] === network) : undefined
    return found as NetworkStatus | undefined // /readyz?verbose of the same version
  } catch {
    return undefined
  }
}
