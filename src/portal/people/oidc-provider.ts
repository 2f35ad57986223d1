import { createHmac } from 'node:crypto'
import type { Configuration, ClientAuth } from 'openid-client'
import type { Secret } from '../../plugin/secret.ts'
import type { Clock } from '../../services/clock.ts'
import type { Log } from '../../services/log.ts'
import { singleFlight } from '../../util/async.ts'
import { ApiError } from '../api-errors.ts'
import { emailAddress } from '../../services/accounts/account-fields.ts'

export interface OidcOptions {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: Secret
  /** What people call the provider. */
  readonly name: string
}

/** Who signs in at a provider. Issuer and subject together never change, and are nobody else's. */
export interface OidcIdentity {
  readonly issuer: string
  readonly subject: string
  /** In lower case; undefined unless the provider has verified it. */
  readonly email: string | undefined
}

/** An OpenID Connect provider, at which people sign in. What it refuses or does wrong rejects with ApiError. */
export interface OidcProvider extends Pick<OidcOptions, 'name'> {
  /** Where the browser goes to sign in. `secret` is known to this browser alone. */
  authorizationUrl(secret: string): Promise<string>
  /** Who has signed in; `query` is that with which the provider sent the browser back. */
  identify(secret: string, query: string): Promise<OidcIdentity>
}

const requestTimeoutSeconds = 5
/** Providers move their endpoints now and then. */
const metadataTtlMs = 3_600_000
/** Between the clocks of the gateway and the provider. */
const clockToleranceSeconds = 30
const scope = 'openid email profile'

interface OidcServices {
  readonly clock: Clock
  readonly log: Log
}

/** openid-client is loaded, and the provider's metadata is read, with the first sign-in. `redirectUri` is where the provider sends browsers. */
export const openOidcProvider = (options: OidcOptions, redirectUri: string, { clock, log }: OidcServices): OidcProvider => {
  const { name } = options
  let known: { readonly metadata: Configuration; readonly readAt: number } | undefined
  const discoverOnce = singleFlight(async () => ({ metadata: await discover(options), readAt: clock.monotonic() }))
  const readMetadata = async (): Promise<Configuration> => {
    if (known === undefined || clock.monotonic() - known.readAt >= metadataTtlMs) known = await discoverOnce()
    return known.metadata
  }
  const toApiError = createErrorMapper(name, log)

  return {
    name,
    async authorizationUrl(secret) {
      const { buildAuthorizationUrl, calculatePKCECodeChallenge } = await import('openid-client')
      const { state, nonce, codeVerifier } = deriveChecks(secret)
      const pkce = { code_challenge: await calculatePKCECodeChallenge(codeVerifier), code_challenge_method: 'S256' }
      const found = await readMetadata().catch((error: unknown) => Promise.reject(toApiError(error, 'metadata')))
      return buildAuthorizationUrl(found, { redirect_uri: redirectUri, scope, state, nonce, ...pkce }).href
    },
    async identify(secret, query) {
      const url = new URL(redirectUri)
      url.search = query
      try {
        return await redeemCode(await readMetadata(), url, deriveChecks(secret))
      } catch (error) {
        throw toApiError(error, 'sign-in')
      }
    },
  }
}

const discover = async ({ issuer, clientId, clientSecret }: OidcOptions): Promise<Configuration> => {
  const client = await import('openid-client')
  const post = client.ClientSecretPost(clientSecret.reveal())
  const basic = client.ClientSecretBasic(clientSecret.reveal())
  // A provider that does not say which it accepts accepts Basic (OpenID Connect Discovery 1.0, 3).
  const authenticate: ClientAuth = (as, ...rest) =>
    (as.token_endpoint_auth_methods_supported?.includes('client_secret_post') === true ? post : basic)(as, ...rest)
  return client.discovery(new URL(issuer), clientId, { [client.clockTolerance]: clockToleranceSeconds }, authenticate, {
    timeout: requestTimeoutSeconds,
    // The signature of the ID token is verified too, although it comes from the provider itself. By http only on this machine.
    execute: [client.enableNonRepudiationChecks, ...(issuer.startsWith('http:') ? [client.allowInsecureRequests] : [])],
  })
}

interface Checks {
  readonly state: string
  readonly nonce: string
  readonly codeVerifier: string
}

/** All follow from the secret of the browser: none is stored. */
const deriveChecks = (secret: string): Checks => {
  const derive = (use: string) => createHmac('sha256', secret).update(use).digest('base64url')
  return { state: derive('state'), nonce: derive('nonce'), codeVerifier: derive('code verifier') }
}

const redeemCode = async (metadata: Configuration, url: URL, { state, nonce, codeVerifier }: Checks): Promise<OidcIdentity> => {
  const { authorizationCodeGrant, fetchUserInfo } = await import('openid-client')
  const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: codeVerifier, idTokenExpected: true }
  const tokens = await authorizationCodeGrant(metadata, url, checks)
  const claims = tokens.claims()
  if (claims === undefined) throw new Error('the provider sent no ID token')
  const isInToken = claims['email'] !== undefined && claims['email_verified'] !== undefined
  const hasUserInfo = metadata.serverMetadata().userinfo_endpoint !== undefined
  const person = !isInToken && hasUserInfo ? await fetchUserInfo(metadata, tokens.access_token, claims.sub) : claims
  return { issuer: claims.iss, subject: claims.sub, email: verifiedEmail(person) }
}

/** In lower case; undefined unless the provider says that it has verified the address. */
const verifiedEmail = ({ email, email_verified: verified }: Readonly<Record<string, unknown>>): string | undefined => {
  // Some providers write `true` as a text.
  const isVerified = verified === true || verified === 'true'
  return isVerified && typeof email === 'string' && new RegExp(emailAddress.pattern).test(email) ? email.toLowerCase() : undefined
}

/** The codes of openid-client for a provider that does not answer as one. */
const outageCodes = ['OAUTH_TIMEOUT', 'OAUTH_RESPONSE_IS_NOT_CONFORM', 'OAUTH_RESPONSE_IS_NOT_JSON', 'OAUTH_PARSE_ERROR']

/** The person gets the message, which says what to do; the log has the cause. */
const createErrorMapper =
  (name: string, log: Log) =>
  (error: unknown, step: 'metadata' | 'sign-in'): ApiError => {
    const { code = '', error: refusal, message, cause } = error as Partial<Record<string, unknown>> // of an Error of openid-client
    if (code === 'OAUTH_AUTHORIZATION_RESPONSE_ERROR') {
      return new ApiError(
        401,
        'provider-refused',
        `${name} did not sign you in: ${String(refusal)
          .replaceAll(/[^\w-]/g, '')
          .slice(0, 64)}`,
      )
    }
    const reason = [message, refusal, cause instanceof Error ? cause.message : ''].filter(Boolean).join(': ')
    log.warn({ event: 'oidc-failed', step, code, reason }, 'sign-in with the OpenID Connect provider failed')
    if (step === 'metadata' || isOutage(error, String(code))) {
      return new ApiError(503, 'provider-unavailable', `${name} cannot be used now; sign-in links go on working`)
    }
    return new ApiError(401, 'sign-in-invalid', `the sign-in with ${name} could not be verified; try again`)
  }

/** fetch() rejects with a TypeError that has a cause where nobody answers. */
const isOutage = (error: unknown, code: string): boolean =>
  outageCodes.includes(code) || (error instanceof TypeError && error.cause instanceof Error)
