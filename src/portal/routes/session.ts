import { ApiError } from '../api-errors.ts'
import { confirmEmail, createSignInToken, signInLinkTtlMs, signInUrl, useSignInToken } from '../one-time-links.ts'
import { schemaRef } from '../openapi.ts'
import { emailPattern, findPersonByEmail } from '../people.ts'
import type { Person } from '../people.ts'
import { accountOf } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { definePublicRoute, defineRoute } from '../route.ts'
import { signOutEverywhere } from '../sessions.ts'
import { completeSignUp, createSignUpToken, maySignUp } from '../sign-up.ts'
import { hourMs } from '../../util/dates.ts'

/** A person as the API shows them. */
export const personJson = ({ id, name, role, email, isEmailVerified = false }: Person) => ({
  id,
  name,
  role,
  email: email ?? null,
  emailVerified: isEmailVerified,
})

export type PersonJson = ReturnType<typeof personJson>

export const sessionSchema = schemaRef('Session')

export const sessionJson = async (services: PortalServices, person: Person) => ({
  person: personJson(person),
  account: { id: person.account, name: (await accountOf(services, person.account)).name },
})

export type SessionJson = Awaited<ReturnType<typeof sessionJson>>

/** How people can sign in. */
export interface SignInOptions {
  /** Whether the gateway sends mail. */
  readonly email: boolean
  readonly signUp: boolean
  /** The name of the OpenID Connect provider. */
  readonly provider: string | null
}

/** False when too many addresses without a person have got mails. */
const mayMailStranger = ({ limits, signUp, log }: PortalServices): boolean => {
  const mail = limits.signUpMails.record(signUp?.perDay ?? 0)
  if (mail === 'last')
    log.warn({ event: 'sign-up-mails-limited' }, 'too many links to sign up were requested: no more are mailed for a day; others are')
  return mail !== 'refused'
}

/** Sends a link, if the address has a person or may sign up. */
const mailLink = async (services: PortalServices, email: string): Promise<void> => {
  const { store, clock, url, sendMail } = services
  const person = await findPersonByEmail(store, email)
  const isSignUp = person === undefined && (await maySignUp(services, email))
  if (sendMail === undefined || (person === undefined && !isSignUp)) return
  if (isSignUp && !mayMailStranger(services)) return
  const token = person === undefined ? await createSignUpToken(services, email) : await createSignInToken(store, clock, person, email)
  const purpose = isSignUp ? 'create your account' : 'sign in'
  await sendMail({
    to: email,
    subject: isSignUp ? 'Create your Tollgate account' : 'Sign in to Tollgate',
    text:
      `Open this link to ${purpose}. It works once, within ${signInLinkTtlMs / hourMs} hours.\n\n${signInUrl(url, token)}\n\n` +
      'If you did not ask for it, ignore this message.\n',
  })
}

export const sessionRoutes = [
  definePublicRoute({
    method: 'get',
    path: '/sign-in-options',
    summary:
      'Whether sign-in links are sent by e-mail, whether new accounts can be made that way, and the name of the OpenID Connect provider.',
    role: 'anyone',
    response: {
      type: 'object',
      properties: { email: { type: 'boolean' }, signUp: { type: 'boolean' }, provider: { type: ['string', 'null'] } },
    },
    handle: (_request, { sendMail, signUp, oidc }): SignInOptions => ({
      email: sendMail !== undefined,
      signUp: sendMail !== undefined && signUp !== undefined,
      provider: oidc?.name ?? null,
    }),
  }),
  definePublicRoute({
    method: 'post',
    path: '/sign-in-links',
    summary: 'Sends a sign-in link to an e-mail address that has an account or may sign up. The response is the same for all addresses.',
    role: 'anyone',
    body: {
      type: 'object',
      properties: {
        email: { type: 'string', pattern: emailPattern, label: 'an e-mail address', description: 'Where the link is sent.' },
      },
      required: ['email'],
    },
    status: 202,
    response: { type: 'object', properties: { email: { type: 'string' } } },
    async handle({ body, callerNetwork }, services) {
      const { limits, sendMail, store, log } = services
      if (sendMail === undefined) throw new ApiError(404, 'no-mail', 'this gateway sends no mail; ask its operator for a sign-in link')
      const email = body.email.toLowerCase()
      limits.linkRequests.check(callerNetwork)
      limits.links.check(email)
      limits.linkRequests.record(callerNetwork)
      limits.links.record(email)
      // The rest is done after the response, whose time would say whether the address has an account: a person is a second read of the store.
      await store.findRecord('email', email)
      setImmediate(
        () => void mailLink(services, email).catch((error: unknown) => log.error({ err: error }, 'sign-in link could not be sent')),
      )
      return { email }
    },
  }),
  definePublicRoute({
    method: 'post',
    path: '/email-confirmations',
    summary: 'Confirms an e-mail address with the token of the link that was mailed there, which is used up by that.',
    role: 'anyone',
    body: {
      type: 'object',
      properties: { token: { type: 'string', minLength: 1, description: 'What follows # in the link.' } },
      required: ['token'],
    },
    response: { type: 'object', properties: { email: { type: 'string' } } },
    async handle({ body: { token }, callerNetwork }, { limits: { failedSignIns }, store }) {
      failedSignIns.check(callerNetwork)
      const email = await confirmEmail(store, token)
      if (email === undefined) failedSignIns.record(callerNetwork)
      if (email === undefined) throw new ApiError(404, 'link-invalid', 'the link is used up or has expired, or the address was changed')
      return { email }
    },
  }),
  definePublicRoute({
    method: 'post',
    path: '/session',
    summary: 'Signs in with the token of a sign-in link, which is used up by that.',
    role: 'anyone',
    body: {
      type: 'object',
      properties: { token: { type: 'string', minLength: 1, description: 'What follows # in the link.' } },
      required: ['token'],
    },
    status: 201,
    response: sessionSchema,
    async handle({ body: { token }, session, callerNetwork }, services) {
      const { failedSignIns } = services.limits
      failedSignIns.check(callerNetwork)
      const person = (await useSignInToken(services.store, token)) ?? (await completeSignUp(services, token))
      if (person === undefined) failedSignIns.record(callerNetwork)
      if (person === undefined) throw new ApiError(401, 'link-invalid', 'the sign-in link is used up or has expired; ask for another one')
      const json = await sessionJson(services, person)
      await session.start(person)
      services.log.info({ event: 'signed-in', account: person.account, person: person.id }, 'signed in to the portal')
      return json
    },
  }),
  defineRoute({
    method: 'get',
    path: '/session',
    summary: 'Who is signed in.',
    role: 'viewer',
    response: sessionSchema,
    handle: ({ person }, services) => sessionJson(services, person),
  }),
  defineRoute({
    method: 'delete',
    path: '/session',
    summary: 'Signs out of this browser.',
    role: 'viewer',
    handle: ({ session }) => session.end(),
  }),
  defineRoute({
    method: 'delete',
    path: '/sessions',
    summary: 'Signs out everywhere: ends all your sessions, this one included. Personal access tokens stay.',
    role: 'viewer',
    async handle({ person, session }, { store }) {
      await signOutEverywhere(store, person)
      session.end()
    },
  }),
]
