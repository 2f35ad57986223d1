import { emailAddress, personName, roles } from '../../services/accounts/account-fields.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { addInvitation, isInvitationId, listInvitations, removeInvitation, renewInvitation } from '../people/invitations.ts'
import type { Invitation } from '../people/invitations.ts'
import { sendInBackground } from '../mail/mailer.ts'
import { createSignInToken, mailConfirmation, mailInvitation, mailSignInLink, signInUrl } from '../people/one-time-links.ts'
import { listOf, schemaRef, textOrNull } from '../response-schemas.ts'
import { findPerson, isLastOwner, listPeople, peopleLock } from '../people/people.ts'
import type { Person } from '../people/people.ts'
import { addToAccount, giveRole, nameTaken, removeFromAccount, rename, requestEmail, requireOtherOwner } from '../people/person-changes.ts'
import { invitationJson, personJson } from '../people/person-json.ts'
import type { PersonJson } from '../people/person-json.ts'
import { accountOf, accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute, requireRole } from '../route.ts'

const personSchema = schemaRef('Person')

const maxPeople = 100

const findColleague = async ({ store }: PortalServices, { account }: Person, id = ''): Promise<Person> => {
  const found = await findPerson(store, id)
  if (found === undefined || found.account !== account) throw notFound('person')
  return found
}

/** The person who asks, or somebody else of the account whom an owner asks for. Rejects with ApiError. */
const findSelfOrColleague = async (services: PortalServices, asker: Person, id = ''): Promise<Person> => {
  if (id === asker.id) return asker
  requireRole(asker, 'owner')
  return findColleague(services, asker, id)
}

const findInvitation = async ({ store }: PortalServices, { account }: Person, id = ''): Promise<Invitation> => {
  const found = (await listInvitations(store, account)).find(invitation => invitation.id === id)
  return found ?? Promise.reject(notFound('invitation'))
}

export interface NewPersonJson {
  readonly person: PersonJson
  /** Signs the person in; null for who was invited. */
  readonly link: string | null
}

/** A link that signs a person in is shown, or it was mailed to the address that they have confirmed. */
export interface PersonLinkJson {
  readonly link: string | null
  readonly mailedTo: string | null
}

const personRole = { type: 'string', enum: roles } as const

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
        role: { ...personRole, default: 'developer', description: 'What the person may do.' },
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
      const author = servicesAs(services, owner)
      const added = await addToAccount(author, { account, name, role }, () => checkNewColleague(store, account, { name }))
      return { person: personJson(added), link: signInUrl(url, await createSignInToken(store, clock, added)) }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/people/{id}/invitation',
    operationId: 'resendInvitation',
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
    method: 'patch',
    path: '/people/{id}',
    summary:
      'Changes a person. Owners give others another name, role or e-mail address; everybody changes their own name and address. An address takes ' +
      'the place of another once it is confirmed by the link that is mailed there.',
    role: 'viewer',
    body: {
      type: 'object',
      properties: {
        name: { ...personName, description: 'Unique in the account.' },
        role: { ...personRole, description: 'What the person may do. The last owner stays one.' },
        email: { ...emailAddress, description: 'Of a person who has confirmed an address, they alone change it.' },
      },
    },
    response: personSchema,
    async handle({ person: asker, params: { id }, body: { name, role, email } }, services): Promise<PersonJson> {
      const person = await findSelfOrColleague(services, asker, id)
      const author = servicesAs(services, asker)
      if (role !== undefined && role !== person.role) requireRole(asker, 'owner')
      if (email !== undefined) await checkNewEmail(services, { asker, person, email: email.toLowerCase() })
      // Where one of them is refused, none is changed.
      if (role !== undefined && role !== 'owner') await requireOtherOwner(services.store, person, 'role')
      if (name !== undefined) await rename(author, person, name)
      if (role !== undefined) await giveRole(author, person, role, () => requireStillOwner(services, asker))
      if (email !== undefined) await changeEmail(services, { asker, person, email: email.toLowerCase() })
      return personJson(await findColleague(services, asker, person.id))
    },
  }),
  defineRoute({
    method: 'post',
    path: '/people/{id}/sign-in-links',
    summary:
      'Makes another link that signs a person in, once, within a day: it is mailed to the address that they have confirmed, or else shown.',
    role: 'owner',
    status: 201,
    response: {
      type: 'object',
      properties: { link: { ...textOrNull, description: 'Null where it was mailed.' }, mailedTo: textOrNull },
      required: ['link', 'mailedTo'],
    },
    async handle({ person: owner, params: { id } }, services): Promise<PersonLinkJson> {
      const { store, clock, url, sendMail } = services
      const person = await findColleague(services, owner, id)
      const { account, name, role, email, isEmailVerified = false } = person
      const mailedTo = sendMail !== undefined && isEmailVerified ? email : undefined
      if (mailedTo !== undefined) checkMail(services, account, mailedTo)
      await accountsAs(services, owner).recordOf(account, { action: 'link-created', target: person.id, after: { name, role } })
      if (mailedTo === undefined) return { link: signInUrl(url, await createSignInToken(store, clock, person)), mailedTo: null }
      startMail(services, account, mailedTo, () => mailSignInLink(services, person, mailedTo))
      return { link: null, mailedTo }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/people/{id}/email-confirmation',
    operationId: 'resendEmailConfirmation',
    summary: 'Mails another link to confirm an e-mail address: your own, or as an owner that of somebody else.',
    role: 'viewer',
    status: 202,
    response: { type: 'object', properties: { email: { type: 'string' } } },
    async handle({ person: asker, params: { id } }, services) {
      if (services.sendMail === undefined) throw noMail()
      const person = await findSelfOrColleague(services, asker, id)
      const email = person.newEmail ?? person.email
      if (email === undefined) throw new ApiError(409, 'no-email', `${person.name} has no e-mail address`)
      if (email === person.email && person.isEmailVerified === true)
        throw new ApiError(409, 'verified', `${person.name} has confirmed ${email} already`)
      checkMail(services, person.account, email)
      await startConfirmation(services, { asker, person, email })
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
]

/** People, and those who were invited. */
const listColleagues = async (
  store: PortalServices['store'],
  account: string,
): Promise<readonly (Pick<Person, 'id' | 'name'> & { readonly email?: string })[]> => [
  ...(await listPeople(store, account)),
  ...(await listInvitations(store, account)),
]

/** Throws ApiError where the account has so many people, or one with this name or this address. Invitations count. */
const checkNewColleague = async (
  store: PortalServices['store'],
  account: string,
  added: Pick<Invitation, 'name'> & { readonly email?: string },
): Promise<void> => {
  const colleagues = await listColleagues(store, account)
  if (colleagues.length >= maxPeople) throw new ApiError(409, 'too-many', `an account has at most ${maxPeople} people`)
  if (colleagues.some(({ name }) => name === added.name)) throw nameTaken(added.name)
  if (added.email !== undefined && colleagues.some(({ email }) => email === added.email)) throw emailTaken(added.email)
}

const emailTaken = (email: string): ApiError =>
  new ApiError(409, 'exists', `the account has, or has invited, a person with ${email}`, 'email')

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

/** What an owner does to others at once with somebody who takes their role away does not happen. */
const requireStillOwner = async (services: PortalServices, owner: Person): Promise<void> =>
  requireRole(await findStill(services, owner), 'owner')

/** Who asks, as they are now. Rejects with ApiError where they were removed meanwhile. */
const findStill = async ({ store }: PortalServices, { id }: Person): Promise<Person> =>
  (await findPerson(store, id)) ?? Promise.reject(new ApiError(401, 'not-signed-in', 'you have just been removed from the account'))

const servicesAs = (services: PortalServices, person: Person) => ({ ...services, accounts: accountsAs(services, person) })

const remove = async (services: PortalServices, owner: Person, id: string): Promise<void> => {
  const removed = await findColleague(services, owner, id)
  // Two owners who remove each other at once: one of them stays.
  await removeFromAccount(servicesAs(services, owner), removed, () => requireStillOwner(services, owner))
}

interface EmailRequest {
  readonly asker: Person
  readonly person: Person
  /** In lower case. */
  readonly email: string
}

/** Throws ApiError. Nothing here depends on who has the address elsewhere. */
const checkNewEmail = async (services: PortalServices, { asker, person, email }: EmailRequest): Promise<void> => {
  const { store } = services
  const { account, name, isEmailVerified = false } = person
  if (email === person.email) return
  if (person.id !== asker.id && isEmailVerified)
    throw new ApiError(409, 'verified', `${name} has confirmed ${person.email}: only they change it, on the page Profile`, 'email')
  if (services.sendMail === undefined) {
    const message = 'nobody could confirm it: this gateway sends no mail. Its operator can enter the address'
    throw new ApiError(409, 'no-mail', message, 'email')
  }
  const colleagues = (await listColleagues(store, account)).filter(({ id }) => id !== person.id)
  if (colleagues.some(colleague => colleague.email === email)) throw emailTaken(email)
  checkMail(services, account, email)
}

/** Mails a link that confirms the address. */
const changeEmail = async (services: PortalServices, request: EmailRequest): Promise<void> => {
  const { asker, person, email } = request
  await requestEmail(servicesAs(services, asker), person, email)
  if (email !== person.email) await startConfirmation(services, request)
}

const startConfirmation = async (services: PortalServices, { asker, person, email }: EmailRequest): Promise<void> => {
  const { name } = await accountOf(services, person.account)
  startMail(services, person.account, email, () => mailConfirmation(services, name, { person, email, asker: asker.name }))
}

const leave = (services: PortalServices, person: Person): Promise<void> => {
  const check = async (): Promise<void> => {
    await findStill(services, person)
    if (await isLastOwner(services.store, person))
      throw new ApiError(409, 'last-owner', 'you are the last owner of the account: add another owner before you leave it')
  }
  return removeFromAccount(servicesAs(services, person), person, check, 'person-left')
}

/** Throws ApiError where the account, or anybody for this address, has asked for as many mails as are allowed. */
const checkMail = ({ limits, sendMail }: PortalServices, account: string, email: string): void => {
  if (sendMail === undefined) return
  limits.peopleMails.check(account)
  limits.links.check(email)
}

const startMail = ({ limits, log }: PortalServices, account: string, email: string, send: () => Promise<unknown>): void => {
  limits.peopleMails.record(account)
  limits.links.record(email)
  sendInBackground(log, send(), 'mail to a person could not be sent')
}
