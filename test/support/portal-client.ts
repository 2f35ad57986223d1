import { bounded } from './bounded.ts'
import { createDeployment, networkFile } from './deployment.ts'
import type { Deployment, DeploymentOptions, GatewayProcess } from './deployment.ts'

/** A response of the portal, parsed. */
export interface PortalResponse {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests read members that they then compare
  readonly json: any
}

/** Someone who uses the API: with the cookies of a browser, or with a token. */
export interface PortalClient {
  request(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<PortalResponse>
  get(path: string): Promise<PortalResponse>
  post(path: string, body?: unknown): Promise<PortalResponse>
  delete(path: string): Promise<PortalResponse>
  /** As a Cookie header. */
  cookies(): string
}

/** Of the admin listener. */
const pathsBesideApi = ['/login', '/logout']

export const createPortalClient = (portalUrl: string, token?: string): PortalClient => {
  const cookieJar = new Map<string, string>()
  const cookies = () => [...cookieJar].map(([name, value]) => `${name}=${value}`).join('; ')
  const request: PortalClient['request'] = async (method, path, body, headers = {}) => {
    const answered = fetch(`${portalUrl}${pathsBesideApi.includes(path) ? '' : '/api/v1'}${path}`, {
      method,
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      headers: {
        'content-type': 'application/json',
        cookie: cookies(),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...headers,
      },
    })
    const response = await bounded(`${method} ${path}`, answered)
    for (const cookie of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? []
      cookieJar.set(name, value)
    }
    const text = await response.text()
    return { status: response.status, headers: response.headers, json: text === '' ? undefined : JSON.parse(text) }
  }
  return {
    request,
    cookies,
    get: path => request('GET', path),
    post: (path, body) => request('POST', path, body),
    delete: path => request('DELETE', path),
  }
}

/** A deployment whose gateway has a portal, with one network in front of a node. */
export const createPortalDeployment = (nodeUrl: string, options: Partial<DeploymentOptions> = {}): Deployment =>
  createDeployment({
    networks: { devnet: networkFile('devnet', [nodeUrl]) },
    ...options,
    gateway: {
      listen: { rpc: '127.0.0.1:0', admin: '127.0.0.1:0', portal: '127.0.0.1:0' },
      // The port is not known before the start: links are followed on the real one.
      portal: { url: 'http://127.0.0.1' },
      ...options.gateway,
    },
  })

/** The token of a sign-in link that the operator prints. */
export const printSignInToken = async (deployment: Deployment, account: string, ...options: readonly string[]): Promise<string> => {
  const { stdout, stderr } = await deployment.run('accounts', 'link', account, ...options, ...roleOf(options), '--json')
  if (stdout === '') throw new Error(stderr)
  return new URL(JSON.parse(stdout).link).hash.slice(1)
}

/** A new person is an owner, unless the options say otherwise. */
const roleOf = (options: readonly string[]): readonly string[] =>
  options.includes('--person') && !options.includes('--role') ? ['--role', 'owner'] : []

/** Someone who has signed in by such a link. */
export const signInToPortal = async (
  deployment: Deployment,
  gateway: GatewayProcess,
  account: string,
  ...options: readonly string[]
): Promise<PortalClient> => {
  const client = createPortalClient(gateway.portal ?? '')
  const { status, json } = await client.post('/session', { token: await printSignInToken(deployment, account, ...options) })
  if (status !== 201) throw new Error(JSON.stringify(json))
  return client
}
