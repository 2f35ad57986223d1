import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isJsonObject } from '../util/json.ts'
import type { GatewayConfig } from '../config/types.ts'
import { localAdminUrl } from '../server/http-server.ts'
import type { ReloadReport } from '../core/reloader.ts'
import type { NetworkStatus } from '../server/network-status.ts'

/** The admin listener answers from memory, except that it first polls nodes that no call keeps polled. */
const statusTimeoutMs = 5_000

/** The URL of the admin listener on this machine; undefined without one, or with a port that only the running gateway knows. */
export const adminUrl = (config: GatewayConfig): string | undefined => (config.listen.admin?.port === 0 ? undefined : localAdminUrl(config))

/** The part of fetch() that requests to the admin listener use. */
export type FetchAdmin = (
  url: string | URL,
  init: { readonly headers?: Readonly<Record<string, string>>; readonly signal: AbortSignal },
) => Promise<Pick<Response, 'ok' | 'status' | 'json' | 'text'>>

/** A fetch() for the admin listener of this configuration. With TLS it accepts the certificate of `admin.tls`, and no other. */
export const openAdminFetch = async ({ admin: { tls } }: Pick<GatewayConfig, 'admin'>): Promise<FetchAdmin> => {
  if (tls === undefined) return fetch
  const { Agent, buildConnector, fetch: fetchBy } = await import('undici')
  // The certificate names hosts by which others reach the listener, and must not fail health checks once it has expired.
  const connect = buildConnector({ rejectUnauthorized: false })
  const dispatcher = new Agent({
    connect: (options, callback) =>
      connect(options, (error, socket) => {
        if (error !== null) return callback(error, null)
        if ('getPeerX509Certificate' in socket && isCertificateOf(tls.cert, socket.getPeerX509Certificate())) return callback(null, socket)
        socket.destroy()
        return callback(new Error(`the certificate is not that of ${tls.cert}`), null)
      }),
  })
  return (url, init) => fetchBy(url, { ...init, dispatcher })
}

/** Reads the file for each connection: `tollgate top` runs on while the certificate is renewed. */
const isCertificateOf = (file: string, certificate: X509Certificate | undefined): boolean => {
  try {
    return certificate?.fingerprint256 === new X509Certificate(readFileSync(file)).fingerprint256
  } catch {
    return false
  }
}

/** Requests a path of the admin listener at the URL. Rejects when nothing answers in time. */
export const requestAdmin = async (
  config: GatewayConfig,
  url: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): ReturnType<FetchAdmin> => (await openAdminFetch(config))(`${url}${path}`, { headers, signal: AbortSignal.timeout(statusTimeoutMs) })

/** fetch() hides why a connection failed in the cause. */
export const describeFetchError = (error: unknown): string => {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (!(cause instanceof Error)) return String(cause)
  const text = cause.message || cause.name
  return text.includes('ECONNREFUSED') ? `${text}; is the gateway running, with this configuration?` : text
}

/** What a reload of the running gateway would come to, as the admin listener answers it. */
export type ReloadPreview = Pick<ReloadReport, 'changes' | 'problems'>

/** A text says why there is none. */
export const fetchReloadPreview = async (config: GatewayConfig): Promise<ReloadPreview | string> => {
  const url = adminUrl(config)
  const { token } = config.admin
  if (url === undefined || token === undefined)
    return '--diff asks the running gateway: it requires listen.admin with a fixed port, and admin.token'
  const response = await requestAdmin(config, url, '/reload', { authorization: `Bearer ${token.reveal()}` }).catch(() => undefined)
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
    const body: unknown = await (await requestAdmin(config, url, '/readyz?verbose')).json()
    const networks: unknown = isJsonObject(body) ? body['networks'] : undefined
    const found = Array.isArray(networks) ? networks.find(each => isJsonObject(each) && each['name'] === network) : undefined
    return found as NetworkStatus | undefined // /readyz?verbose of the same version
  } catch {
    return undefined
  }
}
