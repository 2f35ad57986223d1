import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import type { TLSSocket } from 'node:tls'
import { isJsonObject } from '../util/json.ts'
import type { GatewayConfig } from '../config/types.ts'
import { localAdminUrl } from '../server/listener-urls.ts'
import { formatChange, formatReloadProblem } from '../core/config-changes.ts'
import type { ConfigChange } from '../core/config-changes.ts'
import type { ReloadReport } from '../core/reloader.ts'
import type { NetworkStatus } from '../server/network-status.ts'
import { plain } from '../util/style.ts'
import type { Style } from '../util/style.ts'
import { CommandError, exitCodes } from './command.ts'
import type { Terminal } from './command.ts'
import { withoutBrackets } from '../util/host-name.ts'

/** The admin listener answers from memory, except that it first polls nodes that no call keeps polled. */
const statusTimeoutMs = 5_000

/** The URL of the admin listener on this machine; undefined without one, or with a port that only the running gateway knows. */
export const adminUrl = (config: GatewayConfig): string | undefined => (config.listen.admin?.port === 0 ? undefined : localAdminUrl(config))

interface AdminRequest {
  readonly method?: 'GET' | 'POST' | 'PUT'
  /** JSON. */
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/** The part of fetch() that requests to the admin listener use. */
export type FetchAdmin = (url: string | URL, request: AdminRequest) => Promise<Pick<Response, 'ok' | 'status' | 'json' | 'text'>>

/** A fetch() for the admin listener of this configuration. With TLS it accepts the certificate of `admin.tls`, and no other. */
export const openAdminFetch = ({ admin: { tls } }: Pick<GatewayConfig, 'admin'>): FetchAdmin =>
  tls === undefined ? fetch : (url, request) => fetchOverTls(new URL(url), request, tls.cert)

const fetchOverTls = async (
  url: URL,
  { method = 'GET', headers, body, signal }: AdminRequest,
  certificateFile: string,
): Promise<Response> => {
  const socket = await connectTo(url, certificateFile, signal)
  const sent = request(url, { method, ...(headers === undefined ? {} : { headers }), signal, createConnection: () => socket }).end(body)
  const [response] = (await once(sent, 'response')) as [Readable & { readonly statusCode: number }] // a response of node:http
  return new Response(await text(response), { status: response.statusCode })
}

/** The token is sent only once the certificate is known to be the one of the file. */
const connectTo = async ({ hostname, port }: URL, certificateFile: string, signal: AbortSignal): Promise<TLSSocket> => {
  // The certificate names hosts by which others reach the listener, and must not fail health checks once it has expired.
  const socket = connect({ host: withoutBrackets(hostname), port: Number(port || 443), rejectUnauthorized: false })
  try {
    await once(socket, 'secureConnect', { signal })
    if (isCertificateOf(certificateFile, socket.getPeerX509Certificate())) return socket
    throw new Error(`the certificate is not that of ${certificateFile}`)
  } catch (error) {
    socket.destroy()
    throw error
  }
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
export const requestAdmin = (
  config: GatewayConfig,
  url: string,
  path: string,
  { timeoutMs = statusTimeoutMs, ...request }: Omit<AdminRequest, 'signal'> & { readonly timeoutMs?: number } = {},
): ReturnType<FetchAdmin> => openAdminFetch(config)(`${url}${path}`, { ...request, signal: AbortSignal.timeout(timeoutMs) })

/** fetch() hides why a connection failed in the cause. */
export const describeFetchError = (error: unknown): string => {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (!(cause instanceof Error)) return String(cause)
  const reason = cause.message || cause.name
  return reason.includes('ECONNREFUSED') ? `${reason}; is the gateway running, with this configuration?` : reason
}

/** What a reload of the running gateway has come to, or would, as the admin listener answers it. */
type ReloadResult = Pick<ReloadReport, 'changes' | 'problems'>

/** New networks are started first: their nodes have so long to answer. */
const reloadTimeoutMs = 60_000

/** Asks the running gateway to reload, or (GET) what that would change. It reads the files itself, with its own environment. Throws CommandError. */
const requestReload = async (config: GatewayConfig, method: 'GET' | 'POST'): Promise<ReloadResult> => {
  const without = ' (without them, saved files are applied unless `watch` is false)'
  const options = { method, timeoutMs: reloadTimeoutMs, statuses: [200, 422], without }
  return (await requestWithToken(config, '/reload', options)) as ReloadResult // of the same version
}

interface AdminTokenRequest {
  readonly method?: 'GET' | 'POST' | 'PUT'
  readonly body?: object
  readonly timeoutMs?: number
  /** Others are errors. */
  readonly statuses?: readonly number[]
  /** What else can be done where the gateway cannot be asked. */
  readonly without?: string
}

/** The JSON that the running gateway answers the operator. Throws CommandError. */
export const requestWithToken = async (
  config: GatewayConfig,
  path: string,
  { method = 'GET', body, timeoutMs = statusTimeoutMs, statuses = [200], without = '' }: AdminTokenRequest = {},
): Promise<unknown> => {
  const url = adminUrl(config)
  const { token } = config.admin
  if (url === undefined || token === undefined)
    throw new CommandError(`the running gateway cannot be asked: that requires listen.admin with a fixed port, and admin.token${without}`)
  const headers = { authorization: `Bearer ${token.reveal()}`, ...(body !== undefined && { 'content-type': 'application/json' }) }
  const request = { method, headers, timeoutMs, ...(body !== undefined && { body: JSON.stringify(body) }) }
  const response = await requestAdmin(config, url, path, request).catch((error: unknown) => {
    throw new CommandError(`no gateway answers at ${url}: ${describeFetchError(error)}`)
  })
  if (response.status === 401) throw new CommandError(`the gateway at ${url} has another admin.token`)
  if (!statuses.includes(response.status)) throw new CommandError(`the gateway at ${url} answers ${response.status} to ${method} ${path}`)
  return response.json()
}

/** What is printed of a reload, or of one that is not made. */
interface ReloadTexts {
  readonly method: 'GET' | 'POST'
  readonly json: boolean
  readonly refused: string
  readonly unchanged: string
}

/** Resolves with the exit code. Throws CommandError. */
export const printReload = async (config: GatewayConfig, texts: ReloadTexts, terminal: Terminal): Promise<number> => {
  const { method, json, refused, unchanged } = texts
  const { out, err, styleOut = plain, styleErr = plain } = terminal
  const { changes, problems } = await requestReload(config, method)
  if (json) out(JSON.stringify({ changes, problems }))
  else if (problems.length > 0) [...problems.map(formatReloadProblem), styleErr('error', refused)].forEach(line => err(line))
  else (changes.length > 0 ? changes.map(change => styleChange(change, styleOut)) : [unchanged]).forEach(line => out(line))
  return problems.length > 0 ? exitCodes.config : exitCodes.ok
}

const styleChange = (change: ConfigChange, style: Style): string =>
  style(change.needsRestart ? 'warning' : ({ added: 'ok', changed: 'place', removed: 'error' } as const)[change.kind], formatChange(change))

/** What the running gateway of this configuration says of its networks; undefined when none answers. */
export const fetchNetworkStatuses = async (config: GatewayConfig): Promise<readonly NetworkStatus[] | undefined> => {
  const url = adminUrl(config)
  if (url === undefined) return undefined
  try {
    const body: unknown = await (await requestAdmin(config, url, '/readyz?verbose')).json()
    const networks: unknown = isJsonObject(body) ? body['networks'] : undefined
    return Array.isArray(networks) ? (networks as readonly NetworkStatus[]) : undefined // /readyz?verbose of the same version
  } catch {
    return undefined
  }
}
