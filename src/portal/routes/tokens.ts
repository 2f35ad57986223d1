import { dayMs, isoTime, isoTimeOrNull } from '../../util/dates.ts'
import { createAccessToken, listAccessTokens } from '../people/access-tokens.ts'
import type { AccessToken } from '../people/access-tokens.ts'
import { ApiError, notFound } from '../api-errors.ts'
import { oneAtATime } from '../concurrent-changes.ts'
import { givenName } from '../../services/accounts/account-fields.ts'
import { listOf, schemaRef } from '../response-schemas.ts'
import { accountsAs } from '../portal-services.ts'
import { defineRoute } from '../route.ts'

/** Of one person. */
const maxTokens = 100

const tokenJson = ({ id, name, hint, created, expires, isReadOnly, lastUsed }: AccessToken) => ({
  id,
  name,
  hint,
  created: isoTime(created),
  expires: isoTimeOrNull(expires),
  readOnly: isReadOnly,
  lastUsed: isoTimeOrNull(lastUsed),
})

export type TokenJson = ReturnType<typeof tokenJson>

/** The response is the only place where the token itself is shown. */
export interface NewTokenJson extends TokenJson {
  readonly token: string
}

export const tokenRoutes = [
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
    summary:
      'Creates a personal access token for scripts: `Authorization: Bearer TOKEN`. It is shown once, and has your role, or reads alone.',
    role: 'viewer',
    body: {
      type: 'object',
      properties: {
        name: givenName('What you call the token.'),
        days: { type: 'integer', minimum: 1, maximum: 3_650, description: 'After so many days the token ends; without it, never.' },
        readOnly: { type: 'boolean', default: false, description: 'Whether the token changes nothing: it reads what you can.' },
      },
      required: ['name'],
    },
    status: 201,
    response: schemaRef('NewAccessToken'),
    async handle({ person, body: { name, days, readOnly } }, services): Promise<NewTokenJson> {
      const { store, clock } = services
      const expires = days === undefined ? undefined : clock.now() + days * dayMs
      const created = await oneAtATime(services, `tokens ${person.id}`, async () => {
        if ((await listAccessTokens(store, person)).length >= maxTokens)
          throw new ApiError(409, 'too-many', `a person has at most ${maxTokens} tokens: remove one first`)
        return createAccessToken(store, clock, person, { name, expires, isReadOnly: readOnly })
      })
      await accountsAs(services, person).recordOf(person.account, {
        action: 'token-created',
        target: created.id,
        after: { name, readOnly },
      })
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
