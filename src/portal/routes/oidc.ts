import { isoTime } from '../../util/dates.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { findLinkedIdentity, personOfIdentity } from '../people/oidc-identities.ts'
import type { OidcProvider } from '../people/oidc-provider.ts'
import { createAddressToken } from '../people/one-time-links.ts'
import { listOf, object, schemaRef, text, time } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { unlinkIdentity } from '../people/people.ts'
import type { Person } from '../people/people.ts'
import { accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { choiceOf, signInWithAddress } from '../people/proven-addresses.ts'
import { generateToken, hashToken } from '../people/random-tokens.ts'
import { defineRoute } from '../route.ts'
import { signInSchema, startSession } from './session.ts'
import type { SignInJson } from './session.ts'

/** How long people may take to sign in at the provider. */
const signInTimeoutMs = 600_000

/** The identity by which a person signs in. */
export const identitySchema = object({ id: text, issuer: { type: 'string', description: 'The URL of the provider.' }, linked: time })

export type IdentityJson = JsonOf<typeof identitySchema>

const providerOf = ({ oidc }: PortalServices): OidcProvider => {
  if (oidc === undefined) throw new ApiError(404, 'no-oidc', 'this gateway has no OpenID Connect provider')
  return oidc
}

/** Signing in at the OpenID Connect provider: the browser goes there, comes back to /sign-in, and sends the query that it came with. */
export const oidcRoutes = [
  defineRoute({
    method: 'post',
    path: '/oidc/authorization-url',
    operationId: 'createAuthorizationUrl',
    summary: 'Begins a sign-in at the OpenID Connect provider. The browser goes to `url`, and comes back to /sign-in within ten minutes.',
    role: 'anyone',
    status: 201,
    response: { type: 'object', properties: { url: { type: 'string', format: 'uri' } } },
    async handle({ callerNetwork, signInSecret }, services) {
      const { limits, store, clock } = services
      const provider = providerOf(services)
      limits.providerSignIns.attempt(callerNetwork)
      const secret = generateToken()
      const url = await provider.authorizationUrl(secret)
      await store.putRecord('oidc-sign-in', { id: hashToken(secret), account: '', value: true, expires: clock.now() + signInTimeoutMs })
      signInSecret.set(secret, signInTimeoutMs)
      return { url }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/oidc/session',
    operationId: 'signInAtProvider',
    summary:
      'Signs in with what the OpenID Connect provider sent the browser back with, which is used up by that. Whoever was invited gets a ' +
      '`SignInChoice` first, whose token signs in by POST /session.',
    role: 'anyone',
    body: {
      type: 'object',
      properties: {
        query: { type: 'string', minLength: 1, maxLength: 16_384, description: 'What follows ? in the URL, with `code` and `state`.' },
      },
      required: ['query'],
    },
    status: 201,
    response: signInSchema,
    async handle({ body: { query }, session, signInSecret, callerNetwork }, services): Promise<SignInJson> {
      const { limits, store, clock } = services
      const provider = providerOf(services)
      limits.failedSignIns.check(callerNetwork)
      const secret = signInSecret.get()
      signInSecret.clear()
      try {
        if (secret === undefined || (await store.takeRecord('oidc-sign-in', hashToken(secret))) === undefined) throw signInExpired()
        const found = await personOfIdentity(services, provider, await provider.identify(secret, query))
        if ('id' in found) return startSession(services, session, found)
        const choice = await choiceOf(services, found)
        if (choice !== undefined) return { token: (await createAddressToken(store, clock, found)).reveal(), ...choice }
        return startSession(services, session, await signInWithAddress(services, found, { network: callerNetwork }))
      } catch (error) {
        if (error instanceof ApiError && error.status < 500) limits.failedSignIns.record(callerNetwork)
        throw error
      }
    },
  }),
  defineRoute({
    method: 'get',
    path: '/identities',
    summary: 'The identities of OpenID Connect providers by which you sign in: one at most.',
    role: 'viewer',
    response: listOf(schemaRef('Identity')),
    async handle({ person }, { store }): Promise<readonly IdentityJson[]> {
      const identity = await findLinkedIdentity(store, person.id)
      return identity === undefined ? [] : [{ id: identity.hash, issuer: identity.issuer, linked: isoTime(identity.linked) }]
    },
  }),
  defineRoute({
    method: 'delete',
    path: '/identities/{id}',
    summary: 'Unlinks an identity: it no longer signs you in, and another one may. Never the last way in which you can sign in.',
    role: 'viewer',
    async handle({ person, params: { id } }, services) {
      const { store } = services
      const identity = await findLinkedIdentity(store, person.id)
      if (identity === undefined || identity.hash !== id) throw notFound('identity')
      checkOtherSignIn(services, person)
      if (!(await unlinkIdentity(store, person.id))) throw notFound('identity')
      const change = {
        action: 'person-changed',
        target: person.id,
        before: { identity: identity.issuer },
        after: { identity: null },
      } as const
      await accountsAs(services, person).recordOf(person.account, change)
    },
  }),
]

/** Throws ApiError where the identity is the only way in which the person can sign in by themselves. */
const checkOtherSignIn = ({ sendMail }: PortalServices, { email }: Person): void => {
  if (sendMail !== undefined && email !== undefined) return
  const reason = sendMail === undefined ? 'this gateway mails no sign-in links' : 'you have no e-mail address for sign-in links'
  throw new ApiError(409, 'last-sign-in', `the identity is your only way to sign in: ${reason}`)
}

const signInExpired = (): ApiError =>
  new ApiError(401, 'sign-in-expired', 'this sign-in is used up, has expired, or began in another browser; sign in again')
