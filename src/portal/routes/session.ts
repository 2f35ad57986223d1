import { ApiError } from '../api-error.ts'
import { useSignInToken } from '../people.ts'
import type { Person } from '../people.ts'
import { accountOf } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { definePublicRoute, defineRoute } from '../route.ts'
import { signOutEverywhere } from '../sessions.ts'

const sessionSchema = { $ref: '#/components/schemas/Session' }

const sessionJson = async (services: PortalServices, { id, account, name, role }: Person) => ({
  person: { id, name, role },
  account: { id: account, name: (await accountOf(services, account)).name },
})

export const sessionRoutes = [
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
      const person = await useSignInToken(services.store, token)
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
