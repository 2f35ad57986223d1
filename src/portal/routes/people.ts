import { emailAddress, personName, roles } from '../../services/accounts/account-fields.ts'
import type { RecordStore } from '../../store/record-store.ts'
import { dayMs, isoTime, isoTimeOrNull } from '../../util/dates.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { createAccessToken, listAccessTokens } from '../access-tokens.ts'
import type { AccessToken } from '../access-tokens.ts'
import { addInvitation, isInvitationId, listInvitations, removeInvitation, renewInvitation } from '../invitations.ts'
import type { Invitation } from '../invitations.ts'
import { givenName, listOf, schemaRef, textOrNull } from '../openapi.ts'
import { addNewPerson, findPerson, listPeople, peopleLock, removePerson } from '../people.ts'
import type { Person } from '../people.ts'
import { accountOf, accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute, requireRole } from '../route.ts'
import { createSignInToken, mailConfirmation, mailInvitation, signInUrl } from '../one-time-links.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { signOutEverywhere } from '../sessions.ts'
import { personJson } from './session.ts'
import type { PersonJson } from './session.ts'

const personSchema = schemaRef('Person')

const maxPeople = 100
/** Of one person. */
const maxTokens = 100

const findColleague = async ({ store }: PortalServices, { account }: Person, id = ''): Promise<Person> => {
  const found = await findPerson(store, id)
  if (found === undefined || found.account !== account) throw notFound('person')
  return found
}

const findInvitation = async ({ store }: PortalServices, { account }: Person, id = ''): Promise<Invitation> => {
  const found = (await listInvitations(store, account)).find(invitation => invitation.id === id)
  return found ?? Promise.reject(notFound('invitation'))
}

const invitationJson = ({ id, name, role, email, expires }: Invitation): PersonJson => ({
  ...{ id, name, role, email },
  emailVerified: false,
  invitedUntil: isoTime(expires),
})

export interface NewPersonJson {
  readonly person: PersonJson
  /** Signs the person in; null for who was invited. */
  readonly link: string | null
}

const removedError = (): ApiError => new ApiError(401, 'not-signed-in', 'you have just been removed from the account')

const tokenJson = ({ id, name, hint, created, expires }: AccessToken) => ({
  id,
  name,
  hint,
  created: isoTime(created),
  expires: isoTimeOrNull(expires),
})

export type TokenJson = ReturnType<typeof tokenJson>

/** The response is the only place where the token itself is shown. */
export interface NewTokenJson extends TokenJson {
  readonly token: string
}

export const peopleRoutes = [
  defineRoute({
    method: 'get',
    path: '/people',
    summary: 'The people who sign in for the account, and those who were invited.',
    role: 'viewer',
    response: listOf(personSchema),
    handle: async ({ person: { account } }, { store }): Promise<readonly PersonJson[]> => [
      ...(await listPeople(store, account)).map(personJson),
      ...(await listInvitations(store, account)).map(invitationJson),
    ],
  }),
  defineRoute({
    method: 'post',
    path: '/people',
    summary:
      'Adds a person, who signs in with the link of the response, once, within a day. With an e-mail address: invites whoever has it, ' +
      'without a link, whether or not the address has an account.',
    role: 'owner',
    body: {
      type: 'object',
      properties: {
        name: {
          ...personName,
          description: 'Unique in the account.',
        },
        role: { type: 'string', enum: roles, default: 'developer', description: 'What the person may do.' },
        email: {
          ...emailAddress,
          description:
            'Where the invitation is sent, if the gateway sends mail. Whoever has the address joins the account once they have accepted, ' +
            'within 30 days.',
        },
      },
      required: ['name'],
    },
    status: 201,
    response: {
      type: 'object',
      properties: { person: personSchema, link: { ...textOrNull, description: 'Null for who was invited.' } },
      required: ['person', 'link'],
    },
    async handle({ person: owner, body: { name, role, email } }, services): Promise<NewPersonJson> {
      if (email !== undefined)
        return { person: invitationJson(await invite(services, owner, { name, role, email: email.toLowerCase() })), link: null }
      const { store, clock, url } = services
      const { account } = owner
      const added = await oneAtATime(services, peopleLock(account), async () => {
        await checkNewColleague(store, account, { name })
        return addNewPerson(store, clock, { account, name, role })
      })
      if (added === undefined) throw nameTaken(name)
      await accountsAs(services, owner).recordOf(account, { action: 'person-added', target: added.id, after: { name, role } })
      return { person: personJson(added), link: signInUrl(url, await createSignInToken(store, clock, added)) }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/people/{id}/invitation',
    summary: 'Mails an invitation again, which lasts as long as a new one.',
    role: 'owner',
    status: 202,
    response: { type: 'object', properties: { email: { type: 'string' } } },
    async handle({ person: owner, params: { id } }, services) {
      const { store, clock, sendMail } = services
      const invitation = await findInvitation(services, owner, id)
      if (sendMail === undefined) throw noMail()
      checkMail(services, owner.account, invitation.email)
      const renewed = await renewInvitation(store, clock, invitation, owner)
      if (renewed === undefined) throw notFound('invitation')
      await sendInvitation(services, owner, renewed)
      return { email: renewed.email }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/people/{id}/email-confirmation',
    summary: 'Mails the person another link to confirm their e-mail address.',
    role: 'owner',
    status: 202,
    response: { type: 'object', properties: { email: { type: 'string' } } },
    async handle({ person, params: { id } }, services) {
      if (services.sendMail === undefined) throw noMail()
      const found = await findColleague(services, person, id)
      const { email, isEmailVerified = false } = found
      if (email === undefined) throw new ApiError(409, 'no-email', `${found.name} has no e-mail address`)
      if (isEmailVerified) throw new ApiError(409, 'verified', `${found.name} has confirmed ${email} already`)
      checkMail(services, person.account, email)
      startMail(services, person.account, email, () => mailConfirmation(services, found, email))
      return { email }
    },
  }),
  defineRoute({
    method: 'delete',
    path: '/people/{id}',
    summary:
      'Removes a person from the account: their sessions and tokens end. Withdraws an invitation. Owners remove others; everybody removes ' +
      'themselves, except the last owner.',
    role: 'viewer',
    async handle({ person, params: { id = '' } }, services) {
      if (id === person.id) return leave(services, person)
      requireRole(person, 'owner')
      return isInvitationId(id) ? withdraw(services, person, await findInvitation(services, person, id)) : remove(services, person, id)
    },
  }),
  defineRoute({
    method: 'get',
    path: '/tokens',
    summary: 'Your personal access tokens.',
    role: 'viewer',
    response: listOf(schemaRef('AccessToken')),
    handle: async ({ person }, { store }) => (await listAccessTokens(store, person)).map(tokenJson),
  }),
  defineRoute({
    method: 'post',
    path: '/tokens',
    summary: 'Creates a personal access token for scripts: `Authorization: Bearer TOKEN`. It is shown once, and has your role.',
    role: 'viewer',
    body: {
      type: 'object',
      properties: {
        name: givenName('What you call the token.'),
        days: { type: 'integer', minimum: 1, maximum: 3_650, description: 'After so many days the token ends; without it, never.' },
      },
      required: ['name'],
    },
    status: 201,
    response: schemaRef('NewAccessToken'),
    async handle({ person, body: { name, days } }, services): Promise<NewTokenJson> {
      const { store, clock } = services
      const expires = days === undefined ? undefined : clock.now() + days * dayMs
      const created = await oneAtATime(services, `tokens ${person.id}`, async () => {
        if ((await listAccessTokens(store, person)).length >= maxTokens)
          throw new ApiError(409, 'too-many', `a person has at most ${maxTokens} tokens: remove one first`)
        return createAccessToken(store, clock, person, { name, expires })
      })
      await accountsAs(services, person).recordOf(person.account, { action: 'token-created', target: created.id, after: { name } })
      return { ...tokenJson(created), token: created.token.reveal() }
    },
  }),
  defineRoute({
    method: 'delete',
    path: '/tokens/{id}',
    summary: 'Ends one of your personal access tokens.',
    role: 'viewer',
    async handle({ person, params: { id = '' } }, services) {
      const { store } = services
      const found = (await listAccessTokens(store, person)).find(token => token.id === id)
      if (found === undefined) throw notFound('token')
      if ((await store.takeRecord('token', found.id)) === undefined) throw notFound('token')
      const change = { action: 'token-removed', target: found.id, before: { name: found.name } } as const
      await accountsAs(services, person).recordOf(person.account, change)
    },
  }),
]

/** Throws ApiError where the account has so many people, or one with this name or this address. Invitations count. */
const checkNewColleague = async (store: RecordStore, account: string, added: Pick<Invitation, 'name'> & { readonly email?: string }) => {
  const colleagues: readonly Pick<Person, 'name' | 'email'>[] = [
    ...(await listPeople(store, account)),
    ...(await listInvitations(store, account)),
  ]
  if (colleagues.length >= maxPeople) throw new ApiError(409, 'too-many', `an account has at most ${maxPeople} people`)
  if (colleagues.some(({ name }) => name === added.name)) throw nameTaken(added.name)
  if (added.email !== undefined && colleagues.some(({ email }) => email === added.email))
    throw new ApiError(409, 'exists', `the account has, or has invited, a person with ${added.email}`, 'email')
}

const nameTaken = (name: string): ApiError => new ApiError(409, 'exists', `the account has a person named ${name}`, 'name')

const noMail = (): ApiError => new ApiError(404, 'no-mail', 'this gateway sends no mail')

/** Nothing here depends on what the address has elsewhere: nobody learns who has an account. */
const invite = async (
  services: PortalServices,
  owner: Person,
  invited: Pick<Invitation, 'name' | 'role' | 'email'>,
): Promise<Invitation> => {
  const { store, clock, sendMail, oidc } = services
  const { account } = owner
  if (sendMail === undefined && oidc === undefined)
    throw new ApiError(
      409,
      'no-mail',
      'nobody could accept: this gateway sends no mail, and has no provider that verifies addresses',
      'email',
    )
  checkMail(services, account, invited.email)
  const invitation = await oneAtATime(services, peopleLock(account), async () => {
    await checkNewColleague(store, account, invited)
    return addInvitation(store, clock, owner, invited)
  })
  await sendInvitation(services, owner, invitation)
  return invitation
}

/** Mails the invitation, which is in the log of changes. */
const sendInvitation = async (services: PortalServices, owner: Person, invitation: Invitation): Promise<void> => {
  const { id: target, account, name, role, email } = invitation
  await accountsAs(services, owner).recordOf(account, { action: 'person-invited', target, after: { name, role, email } })
  const { name: accountName } = await accountOf(services, account)
  startMail(services, account, email, () => mailInvitation(services, accountName, invitation))
}

const withdraw = async (services: PortalServices, owner: Person, invitation: Invitation): Promise<void> => {
  if (!(await removeInvitation(services.store, invitation))) throw notFound('invitation')
  const { id: target, name, role, email } = invitation
  await accountsAs(services, owner).recordOf(owner.account, { action: 'invitation-withdrawn', target, before: { name, role, email } })
}

const remove = async (services: PortalServices, owner: Person, id: string): Promise<void> => {
  const removed = await findColleague(services, owner, id)
  await oneAtATime(services, peopleLock(owner.account), async () => {
    // Two owners who remove each other at once: one of them stays.
    if ((await findPerson(services.store, owner.id)) === undefined) throw removedError()
    if (!(await removePerson(services.store, removed))) throw notFound('person')
  })
  const change = { action: 'person-removed', target: removed.id, before: { name: removed.name, role: removed.role } } as const
  await accountsAs(services, owner).recordOf(owner.account, change)
  await signOutEverywhere(services.store, removed)
}

const leave = async (services: PortalServices, person: Person): Promise<void> => {
  const { store } = services
  const { id, account, name, role } = person
  await oneAtATime(services, peopleLock(account), async () => {
    const others = (await listPeople(store, account)).filter(each => each.id !== id)
    if (role === 'owner' && !others.some(other => other.role === 'owner'))
      throw new ApiError(409, 'last-owner', 'you are the last owner of the account: add another owner before you leave it')
    if (!(await removePerson(store, person))) throw removedError()
  })
  await accountsAs(services, person).recordOf(account, { action: 'person-left', target: id, before: { name, role } })
  await signOutEverywhere(store, person)
}

/** Throws ApiError where the account, or anybody for this address, has asked for as many mails as are allowed. */
const checkMail = ({ limits, sendMail }: PortalServices, account: string, email: string): void => {
  if (sendMail === undefined) return
  limits.peopleMails.check(account)
  limits.links.check(email)
}

/** Not awaited: a mail server may take seconds. */
const startMail = ({ limits, log }: PortalServices, account: string, email: string, send: () => Promise<void>): void => {
  limits.peopleMails.record(account)
  limits.links.record(email)
  void send().catch((error: unknown) => log.error({ err: error }, 'mail to a person could not be sent'))
}
