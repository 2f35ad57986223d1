import { isJsonObject } from '../util/json.ts'
import type { GatewayConfig } from '../config/types.ts'
import { urlOf } from '../server/http-server.ts'
import type { AdminReloadReport } from '../server/admin.ts'
import type { NetworkStatus } from '../server/network-status.ts'

/** The admin listener answers from memory, except that it first polls nodes that no call keeps polled. */
const statusTimeoutMs = 5_000

/** Addresses that listen on all interfaces; a client reaches them on the loopback interface. */
const loopbackByWildcard: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** The URL of the admin listener on this machine; undefined without one, or with a port that only the running gateway knows. */
export const adminUrl = ({ listen: { admin } }: GatewayConfig): string | undefined =>
  admin === undefined || admin.port === 0 ? undefined : urlOf(loopbackByWildcard[admin.host] ?? admin.host, admin.port)

/** Requests a path of the admin listener. Rejects when nothing answers in time. */
export const requestAdmin = (url: string, path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> =>
  fetch(`${url}${path}`, { headers, signal: AbortSignal.timeout(statusTimeoutMs) })

/** What a reload of the running gateway would come to, as the admin listener answers it. */
export type ReloadPreview = Pick<AdminReloadReport, 'changes' | 'problems'>

/** A text says why there is none. */
export const fetchReloadPreview = async (config: GatewayConfig): Promise<ReloadPreview | string> => {
  const url = adminUrl(config)
  const { token } = config.admin
  if (url === undefined || token === undefined)
    return '--diff asks the running gateway: it requires listen.admin with a fixed port, and admin.token'
  const response = await requestAdmin(url, '/reload', { authorization: `Bearer ${token.reveal()}` }).catch(() => undefined)
  if (response === undefined) return `no gateway answers at ${url}`
  if (response.status === 401) return `the gateway at ${url} has another admin.token`
  if (response.status !== 200 && response.status !== 422) return `the gateway at ${url} answers ${response.status} to GET /reload`
  return (await response.json()) as ReloadPreview // of the same version
}

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
