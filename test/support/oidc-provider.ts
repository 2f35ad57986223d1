import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { SignJWT, exportJWK, generateKeyPair } from 'jose'

export type OidcClaims = Readonly<Record<string, string | number | boolean | undefined>>

/** What an authorization request asked for, by its code. */
interface Grant {
  readonly params: URLSearchParams
  readonly claims: OidcClaims
}

const clientId = 'tollgate'
const clientSecret = 'oidc-canary'

/** A real OpenID Connect provider, without pages: authorization code with PKCE, signed ID tokens, codes that work once. */
export const startOidcProvider = async () => {
  const signingKey = await generateKeyPair('ES256')
  const unknownKey = await generateKeyPair('ES256')
  const grants = new Map<string, Grant>()
  const state = {
    issuer: '',
    usesUnknownKey: false,
    sendsEmailInUserInfo: false,
    metadataIssuer: undefined as string | undefined,
    metadataReads: 0,
  }
  const userInfo = new Map<string, OidcClaims>()

  const idToken = ({ params, claims }: Grant): Promise<string> => {
    const now = Math.floor(Date.now() / 1_000)
    const base = { iss: state.issuer, aud: clientId, iat: now, exp: now + 60, nonce: params.get('nonce') ?? undefined }
    const { email, email_verified, ...others } = claims
    const token = new SignJWT({ ...base, ...others, ...(!state.sendsEmailInUserInfo && { email, email_verified }) })
    return token.setProtectedHeader({ alg: 'ES256', kid: 'key-1' }).sign((state.usesUnknownKey ? unknownKey : signingKey).privateKey)
  }

  const answerToken = async (req: IncomingMessage): Promise<[status: number, body: object]> => {
    const form = new URLSearchParams(await text(req))
    const basic = Buffer.from((req.headers.authorization ?? '').replace('Basic ', ''), 'base64').toString()
    // Both are encoded as in a form (RFC 6749, 2.3.1).
    if (decodeURIComponent(basic) !== `${clientId}:${clientSecret}`) return [401, { error: 'invalid_client' }]
    const grant = grants.get(form.get('code') ?? '')
    grants.delete(form.get('code') ?? '')
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isGranted = grant?.params.get('code_challenge') === challenge && grant.params.get('redirect_uri') === form.get('redirect_uri')
    if (grant === undefined || !isGranted) return [400, { error: 'invalid_grant' }]
    const accessToken = randomUUID()
    userInfo.set(accessToken, grant.claims)
    return [200, { access_token: accessToken, token_type: 'Bearer', expires_in: 60, id_token: await idToken(grant) }]
  }

  const answer = async (req: IncomingMessage): Promise<[status: number, body: object]> => {
    switch (req.url) {
      case '/.well-known/openid-configuration':
        state.metadataReads += 1
        return [
          200,
          {
            issuer: state.metadataIssuer ?? state.issuer,
            authorization_endpoint: `${state.issuer}/authorize`,
            token_endpoint: `${state.issuer}/token`,
            userinfo_endpoint: `${state.issuer}/userinfo`,
            jwks_uri: `${state.issuer}/jwks`,
            response_types_supported: ['code'],
            subject_types_supported: ['public'],
            id_token_signing_alg_values_supported: ['ES256'],
          },
        ]
      case '/jwks':
        return [200, { keys: [{ ...(await exportJWK(signingKey.publicKey)), kid: 'key-1', alg: 'ES256', use: 'sig' }] }]
      case '/token':
        return answerToken(req)
      case '/userinfo':
        return [200, userInfo.get((req.headers.authorization ?? '').replace('Bearer ', '')) ?? {}]
      default:
        return [404, {}]
    }
  }

  const newServer = () =>
    createServer((req: IncomingMessage, res: ServerResponse) => {
      void answer(req).then(([status, body]) => {
        res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
      })
    })
  const listen = async (port: number) => {
    const server = newServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    return server
  }
  let server = await listen(0)
  const { port } = server.address() as AddressInfo // the address of a TCP server is always an AddressInfo
  state.issuer = `http://127.0.0.1:${port}`
  const stop = async () => {
    if (!server.listening) return
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }

  return {
    /** What tests may change. */
    state,
    config: { issuer: state.issuer, clientId, clientSecret: '${OIDC_CLIENT_SECRET}' },
    env: { OIDC_CLIENT_SECRET: clientSecret },
    /** A user signs in and consents. Returns the query with which their browser is sent back; `claims` are those of the ID token. */
    authorize(authorizationUrl: string, claims: OidcClaims): string {
      const { searchParams: params, origin, pathname } = new URL(authorizationUrl)
      const isWellFormed = params.get('response_type') === 'code' && params.get('code_challenge_method') === 'S256'
      if (`${origin}${pathname}` !== `${state.issuer}/authorize` || !isWellFormed) throw new Error(`wrong request: ${authorizationUrl}`)
      const code = randomUUID()
      grants.set(code, { params, claims })
      return new URLSearchParams({ code, state: params.get('state') ?? '' }).toString()
    },
    stop,
    async restart() {
      server = await listen(port)
    },
  }
}
