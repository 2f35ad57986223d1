import { randomBytes } from 'node:crypto'
import { ApiError } from '../api-error.ts'
import { personOfIdentity } from '../oidc-identities.ts'
import type { OidcProvider } from '../oidc-provider.ts'
import { hashToken } from '../people.ts'
import type { PortalServices } from '../portal-services.ts'
import { definePublicRoute } from '../route.ts'
import { sessionJson, sessionSchema } from './session.ts'

/** How long people may take to sign in at the provider. */
const signInTimeoutMs = 600_000
const secretBytes = 32

const providerOf = ({ oidc }: PortalServices): OidcProvider => {
  if (oidc === undefined) throw new ApiError(404, 'no-oidc', 'this gateway has no OpenID Connect provider')
  return oidc
}

/** Signing in at the OpenID Connect provider: the browser goes there, comes back to /sign-in, and sends the query that it came with. */
export const oidcRoutes = [
  definePublicRoute({
    method: 'post',
    path: '/oidc/authorization-url',
    summary: 'Begins a sign-in at the OpenID Connect provider. The browser goes to `url`, and comes back to /sign-in within ten minutes.',
    role: 'anyone',
    status: 201,
    response: { type: 'object', properties: { url: { type: 'string', format: 'uri' } } },
    async handle({ callerNetwork, signInSecret }, services) {
      const { limits, store, clock } = services
      const provider = providerOf(services)
      limits.providerSignIns.check(callerNetwork)
      limits.providerSignIns.record(callerNetwork)
      const secret = randomBytes(secretBytes).toString('base64url')
      const url = await provider.authorizationUrl(secret)
      await store.putRecord('oidc-sign-in', { id: hashToken(secret), account: '', value: true, expires: clock.now() + signInTimeoutMs })
      signInSecret.set(secret, signInTimeoutMs)
      return { url }
    },
  }),
  definePublicRoute({
    method: 'post',
    path: '/oidc/session',
    summary: 'Signs in with what the OpenID Connect provider sent the browser back with, which is used up by that.',
    role: 'anyone',
    body: {
      type: 'object',
      properties: {
        query: { type: 'string', minLength: 1, maxLength: 16_384, description: 'What follows ? in the URL, with `code` and `state`.' },
      },
      required: ['query'],
    },
    status: 201,
    response: sessionSchema,
    async handle({ body: { query }, session, signInSecret, callerNetwork }, services) {
      const { limits, log, store } = services
      const provider = providerOf(services)
      limits.failedSignIns.check(callerNetwork)
      const secret = signInSecret.get()
      signInSecret.clear()
      try {
        if (secret === undefined || (await store.takeRecord('oidc-sign-in', hashToken(secret))) === undefined) throw signInExpired()
        const person = await personOfIdentity(services, provider, await provider.identify(secret, query))
        const json = await sessionJson(services, person)
        await session.start(person)
        log.info({ event: 'signed-in', account: person.account, person: person.id }, 'signed in to the portal')
        return json
      } catch (error) {
        if (error instanceof ApiError && error.status < 500) limits.failedSignIns.record(callerNetwork)
        throw error
      }
    },
  }),
]

const signInExpired = (): ApiError =>
  new ApiError(401, 'sign-in-expired', 'this sign-in is used up, has expired, or began in another browser; sign in again')
