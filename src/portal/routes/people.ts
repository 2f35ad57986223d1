import { dayMs, isoTime, isoTimeOrNull } from '../../util/dates.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { createAccessToken, listAccessTokens } from '../access-tokens.ts'
import type { AccessToken } from '../access-tokens.ts'
import { givenName, listOf, schemaRef } from '../openapi.ts'
import {
  setEmail,
  addNewPerson,
  emailPattern,
  findPerson,
  listPeople,
  personNameLabel,
  personNamePattern,
  removePerson,
  roles,
} from '../people.ts'
import type { Person } from '../people.ts'
import { accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'
import { createSignInToken, mailConfirmation, signInUrl } from '../one-time-links.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { signOutEverywhere } from '../sessions.ts'
import { personJson } from './session.ts'

const personSchema = schemaRef('Person')

const maxPeople = 100
/** Of one person. */
const maxTokens = 100

const findColleague = async ({ store }: PortalServices, { account }: Person, id = ''): Promise<Person> => {
  const found = await findPerson(store, id)
  if (found === undefined || found.account !== account) throw notFound('person')
  return found
}

const peopleLock = (account: string): string => `people ${account}`

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
    summary: 'The people who sign in for the account.',
    role: 'viewer',
    response: listOf(personSchema),
    handle: async ({ person }, { store }) => (await listPeople(store, person.account)).map(personJson),
  }),
  defineRoute({
    method: 'post',
    path: '/people',
    summary: 'Adds a person to the account. The response has a link with which they sign in once, within a day.',
    role: 'owner',
    body: {
      type: 'object',
      properties: {
        name: {
          type: 'string',
          pattern: personNamePattern,
          label: personNameLabel,
          description: 'Unique in the account.',
        },
        role: { type: 'string', enum: roles, default: 'developer', description: 'What the person may do.' },
        email: {
          type: 'string',
          pattern: emailPattern,
          label: 'an e-mail address',
          description:
            'Where the person can ask for further sign-in links, and gets alerts once they have confirmed the address, if the gateway sends ' +
            'mail. Nobody else may have it.',
        },
      },
      required: ['name'],
    },
    status: 201,
    response: { type: 'object', properties: { person: personSchema, link: { type: 'string' } } },
    async handle({ person, body: { name, role, email } }, services) {
      const { store, clock, url } = services
      const { account } = person
      const address = email?.toLowerCase()
      if (address !== undefined) checkConfirmation(services, account, address)
      const added = await oneAtATime(services, peopleLock(account), async () => {
        if ((await listPeople(store, account)).length >= maxPeople)
          throw new ApiError(409, 'too-many', `an account has at most ${maxPeople} people`)
        return addNewPerson(store, clock, { account, name, role })
      })
      if (added === undefined) throw new ApiError(409, 'exists', `the account has a person named ${name}`, 'name')
      if (address !== undefined && !(await setEmail(store, added, address))) {
        await removePerson(store, added)
        throw new ApiError(409, 'email-taken', 'somebody signs in with this e-mail address already', 'email')
      }
      if (address !== undefined) startConfirmation(services, added, address)
      const after = { name, role, ...(address !== undefined && { email: address }) }
      await accountsAs(services, person).recordOf(account, { action: 'person-added', target: added.id, after })
      return {
        person: personJson({ ...added, ...(address !== undefined && { email: address }) }),
        link: signInUrl(url, await createSignInToken(store, clock, added)),
      }
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
      if (services.sendMail === undefined) throw new ApiError(404, 'no-mail', 'this gateway sends no mail')
      const found = await findColleague(services, person, id)
      const { email, isEmailVerified = false } = found
      if (email === undefined) throw new ApiError(409, 'no-email', `${found.name} has no e-mail address`)
      if (isEmailVerified) throw new ApiError(409, 'verified', `${found.name} has confirmed ${email} already`)
      checkConfirmation(services, person.account, email)
      startConfirmation(services, found, email)
      return { email }
    },
  }),
  defineRoute({
    method: 'delete',
    path: '/people/{id}',
    summary: 'Removes a person from the account: their sessions and tokens end.',
    role: 'owner',
    async handle({ person, params: { id } }, services) {
      const removed = await findColleague(services, person, id)
      if (removed.id === person.id) throw new ApiError(409, 'self', 'another owner must remove you')
      await oneAtATime(services, peopleLock(person.account), async () => {
        // Two owners who remove each other at once: one of them stays.
        if ((await findPerson(services.store, person.id)) === undefined) throw removedError()
        if (!(await removePerson(services.store, removed))) throw notFound('person')
      })
      const change = { action: 'person-removed', target: removed.id, before: { name: removed.name, role: removed.role } } as const
      await accountsAs(services, person).recordOf(person.account, change)
      await signOutEverywhere(services.store, removed)
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

/** Throws ApiError where the account, or anybody for this address, has asked for as many mails as are allowed. */
const checkConfirmation = ({ limits, sendMail }: PortalServices, account: string, email: string): void => {
  if (sendMail === undefined) return
  limits.confirmations.check(account)
  limits.links.check(email)
}

/** Not awaited: a mail server may take seconds. */
const startConfirmation = (services: PortalServices, person: Person, email: string): void => {
  services.limits.confirmations.record(person.account)
  services.limits.links.record(email)
  void mailConfirmation(services, person, email).catch((error: unknown) =>
    services.log.error({ err: error }, 'link to confirm an e-mail address could not be sent'),
  )
}
