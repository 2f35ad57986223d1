import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import Provider from 'oidc-provider'

const clientId = 'tollgate'
const clientSecret = 'standard-canary'

/** Where forms are sent to, and what the form is for. */
const formPattern = /<form autocomplete="off" action="([^"]+)" method="post">\s*<input type="hidden" name="prompt" value="(\w+)"/

/**
 * A certified OpenID Connect provider, with its own pages, as people have them: ID tokens have RS256, and addresses are in userinfo alone. All
 * who sign in have a verified address of example.org.
 */
export const startStandardOidcProvider = async (redirectUri: string) => {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // the address of a TCP server is always an AddressInfo
  const provider = new Provider(issuer, {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirectUri] }],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'key-1', alg: 'RS256', use: 'sig' }] },
    cookies: { keys: [randomBytes(16).toString('hex')] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    findAccount: (_ctx, sub) => ({
      accountId: sub,
      claims: () => ({ sub, email: `${sub}@example.org`, email_verified: true, name: sub }),
    }),
  })
  server.on('request', provider.callback())
  return {
    config: { issuer, clientId, clientSecret: '${STANDARD_OIDC_CLIENT_SECRET}' },
    env: { STANDARD_OIDC_CLIENT_SECRET: clientSecret },
    clientSecret,
    /** A browser follows the URL, and its user signs in and consents. Returns the query with which it is sent back. */
    async authorize(authorizationUrl: string, login: string): Promise<string> {
      const cookies = new Map<string, string>()
      const open = async (url: string, body?: URLSearchParams): Promise<Response> => {
        const cookie = Array.from(cookies, ([name, value]) => `${name}=${value}`).join('; ')
        const response = await fetch(url, { redirect: 'manual', headers: { cookie }, ...(body && { method: 'POST', body }) })
        for (const each of response.headers.getSetCookie()) {
          const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(each) ?? []
          if (value === '') cookies.delete(name)
          else cookies.set(name, value)
        }
        return response
      }
      let response = await open(authorizationUrl)
      for (;;) {
        const location = response.headers.get('location')
        if (location?.startsWith(redirectUri)) return new URL(location).search.slice(1)
        if (location !== null) response = await open(new URL(location, issuer).href)
        else {
          const page = await response.text()
          const [, action = '', prompt = ''] = formPattern.exec(page) ?? []
          if (action === '') throw new Error(`no form: ${page}`)
          response = await open(action, new URLSearchParams({ prompt, login, password: 'any' }))
        }
      }
    },
    async stop() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
