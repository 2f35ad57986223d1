import { emailAddress } from '../../services/accounts/account-fields.ts'
import { RecordedAccounts } from '../../services/accounts/recorded-accounts.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { findInvitationsTo, removeInvitation } from '../people/invitations.ts'
import { signInText } from '../mail/mail-texts.ts'
import { sendInBackground } from '../mail/mailer.ts'
import {
  createAddressToken,
  findAddressToken,
  findSignInToken,
  mailSignInLink,
  signInLinkHours,
  signInUrl,
  useSignInToken,
  withAddressToken,
} from '../people/one-time-links.ts'
import { schemaRef } from '../response-schemas.ts'
import { findPerson, findPersonByEmail } from '../people/people.ts'
import type { Person } from '../people/people.ts'
import { personJson } from '../people/person-json.ts'
import { accountOf } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'
import type { SessionControl } from '../route.ts'
import { choiceOf, signInWithAddress } from '../people/proven-addresses.ts'
import type { SignInChoiceJson } from '../people/proven-addresses.ts'
import { maySignUp } from '../people/sign-up.ts'

const sessionSchema = schemaRef('Session')

/** Of a sign-in: whoever was invited chooses first. */
export const signInSchema = { oneOf: [sessionSchema, schemaRef('SignInChoice')] }

const sessionJson = async (services: PortalServices, person: Person) => ({
  person: personJson(person),
  account: { id: person.account, name: (await accountOf(services, person.account)).name },
})

export type SessionJson = Awaited<ReturnType<typeof sessionJson>>

export type SignInJson = SessionJson | SignInChoiceJson

/** How people can sign in. */
export interface SignInOptions {
  /** Whether the gateway sends mail. */
  readonly email: boolean
  readonly signUp: boolean
  /** The name of the OpenID Connect provider. */
  readonly provider: string | null
  /** Whether everybody may see the state of the networks. */
  readonly status: boolean
}

/** False when too many addresses without a person have got mails. */
const mayMailStranger = ({ limits, signUp, log }: PortalServices): boolean => {
  const mail = limits.signUpMails.record(signUp?.perDay ?? 0)
  if (mail === 'last')
    log.warn({ event: 'sign-up-mails-limited' }, 'too many links to sign up were requested: no more are mailed for a day; others are')
  return mail !== 'refused'
}

/** Sends a link, if the address has a person, was invited or may sign up. */
const mailLink = async (services: PortalServices, email: string): Promise<void> => {
  const { store, clock, url, sendMail, brand } = services
  if (sendMail === undefined) return
  const person = await findPersonByEmail(store, email)
  if (person !== undefined) {
    await mailSignInLink(services, person, email)
    return
  }
  const isInvited = (await findInvitationsTo(store, email)).length > 0
  if ((!isInvited && !maySignUp(services, { email })) || !mayMailStranger(services)) return
  const link = { url: signInUrl(url, await createAddressToken(store, clock, { email, isInvited })), hours: signInLinkHours }
  await sendMail({ to: email, ...signInText(brand, isInvited ? 'invitation' : 'sign-up', link) })
}

export const linkToken = { type: 'string', minLength: 1, description: 'What follows # in the link.' } as const

interface LinkRequest {
  readonly token: string
  readonly invitation?: string | undefined
  readonly ownAccount?: boolean | undefined
  readonly switchPerson?: boolean | undefined
  readonly session: SessionControl
  readonly callerNetwork: string
}

/**
 * The person whom the token signs in, who has used it up by that, or what they choose from first. Undefined where the token is used up
 * or has expired. Rejects with ApiError.
 */
const openLink = async (
  services: PortalServices,
  { token, invitation, ownAccount = false, switchPerson = false, session, callerNetwork: network }: LinkRequest,
): Promise<Person | Omit<SignInChoiceJson, 'token'> | undefined> => {
  const { store } = services
  const person = await findSignInToken(store, token)
  if (person !== undefined) {
    if (!switchPerson) await checkOtherSession(services, session, person)
    return useSignInToken(store, token)
  }
  const address = await findAddressToken(store, token)
  if (address === undefined) return undefined
  const choice = invitation === undefined && !ownAccount ? await choiceOf(services, address) : undefined
  if (choice !== undefined) return choice
  const known = invitation === undefined ? await findPersonByEmail(store, address.email) : undefined
  if (!switchPerson) await checkOtherSession(services, session, known ?? address.email)
  return withAddressToken(store, token, each => signInWithAddress(services, each, { invitation, network }))
}

/** Throws ApiError where somebody else is signed in: nobody works on in an account that another has put under them. */
const checkOtherSession = async (services: PortalServices, { person: id }: SessionControl, next: Person | string): Promise<void> => {
  const current = id === undefined ? undefined : await findPerson(services.store, id)
  if (current === undefined || (typeof next !== 'string' && next.id === current.id)) return
  const describe = async ({ name, account }: Person) => `"${name}" of the account "${(await accountOf(services, account)).name}"`
  const nextName = typeof next === 'string' ? next : await describe(next)
  throw new ApiError(409, 'other-session', `you are signed in as ${await describe(current)}; this link signs in ${nextName}`)
}

/** Begins the session of whoever has signed in. */
export const startSession = async (services: PortalServices, session: SessionControl, person: Person): Promise<SessionJson> => {
  const json = await sessionJson(services, person)
  await session.start(person)
  services.log.info({ event: 'signed-in', account: person.account, person: person.id }, 'signed in to the portal')
  return json
}

export const sessionRoutes = [
  defineRoute({
    method: 'get',
    path: '/sign-in-options',
    summary:
      'Whether sign-in links are sent by e-mail, whether new accounts can be made that way, the name of the OpenID Connect provider, and whether everybody may see the state of the networks.',
    role: 'anyone',
    response: {
      type: 'object',
      properties: {
        email: { type: 'boolean' },
        signUp: { type: 'boolean' },
        provider: { type: ['string', 'null'] },
        status: { type: 'boolean' },
      },
    },
    handle: (_request, { sendMail, signUp, oidc, publicStatus }): SignInOptions => ({
      email: sendMail !== undefined,
      signUp: sendMail !== undefined && signUp !== undefined,
      provider: oidc?.name ?? null,
      status: publicStatus === true,
    }),
  }),
  defineRoute({
    method: 'post',
    path: '/sign-in-links',
    operationId: 'requestSignInLink',
    summary: 'Sends a sign-in link to an e-mail address that has an account or may sign up. The response is the same for all addresses.',
    role: 'anyone',
    body: {
      type: 'object',
      properties: {
        email: { ...emailAddress, description: 'Where the link is sent.' },
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
      setImmediate(() => sendInBackground(log, mailLink(services, email), 'sign-in link could not be sent'))
      return { email }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/session',
    operationId: 'signIn',
    summary:
      'Signs in with the token of a sign-in link, which is used up by that. Whoever was invited gets a `SignInChoice` first, and sends the ' +
      'token again with `invitation` or `ownAccount`.',
    role: 'anyone',
    body: {
      type: 'object',
      properties: {
        token: linkToken,
        invitation: { type: 'string', description: 'The id of the invitation to accept.' },
        ownAccount: { type: 'boolean', description: 'Sign in to the account that the address has, or make one.' },
        switchPerson: { type: 'boolean', description: 'Also while somebody else is signed in: their session ends in this browser.' },
      },
      required: ['token'],
    },
    status: 201,
    response: signInSchema,
    async handle({ body, session, callerNetwork }, services): Promise<SignInJson> {
      const open = () => openLink(services, { ...body, session, callerNetwork })
      const opened = await services.limits.failedSignIns.attemptToFind(callerNetwork, open)
      if (opened === undefined) throw new ApiError(401, 'link-invalid', 'the sign-in link is used up or has expired; ask for another one')
      return 'id' in opened ? startSession(services, session, opened) : { token: body.token, ...opened }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/declined-invitations',
    operationId: 'declineInvitation',
    summary: 'Declines an invitation, with the token of a `SignInChoice`, which is not used up by that.',
    role: 'anyone',
    body: {
      type: 'object',
      properties: { token: linkToken, invitation: { type: 'string', description: 'The id of the invitation.' } },
      required: ['token', 'invitation'],
    },
    async handle({ body: { token, invitation: id }, callerNetwork }, services) {
      const { store, clock, limits } = services
      const address = await limits.failedSignIns.attemptToFind(callerNetwork, () => findAddressToken(store, token))
      const invitation = address && (await findInvitationsTo(store, address.email)).find(each => each.id === id)
      if (invitation === undefined || !(await removeInvitation(store, invitation))) throw notFound('invitation')
      const { account, name, role, email } = invitation
      const accounts = new RecordedAccounts(store, clock, { kind: 'person', name: email })
      await accounts.recordOf(account, { action: 'invitation-declined', target: id, before: { name, role, email } })
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
    operationId: 'signOut',
    summary: 'Signs out of this browser.',
    role: 'viewer',
    handle: ({ session }) => session.end(),
  }),
]
