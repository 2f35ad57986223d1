import { isoTime } from '../../util/dates.ts'
import { notFound } from '../api-errors.ts'
import { flag, listOf, object, schemaRef, text, textOrNull, time } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { defineRoute } from '../route.ts'
import { listSessions, signOutEverywhere } from '../people/sessions.ts'

/** A browser in which the person is signed in. */
export const listedSessionSchema = object({
  id: text,
  browser: { type: 'string', description: 'Such as `Firefox on Windows`.' },
  network: { ...textOrNull, description: 'From where it signed in: an IPv4 address, or a /64 of IPv6.' },
  signedIn: time,
  lastSeen: { ...time, description: 'To a quarter of an hour.' },
  isCurrent: { ...flag, description: 'Whether the request is of this session.' },
})

export type SessionListItem = JsonOf<typeof listedSessionSchema>

export const sessionListRoutes = [
  defineRoute({
    method: 'get',
    path: '/sessions',
    summary: 'Where you are signed in, the newest session first.',
    role: 'viewer',
    response: listOf(schemaRef('ListedSession')),
    handle: async ({ person, session }, { store }): Promise<readonly SessionListItem[]> =>
      (await listSessions(store, person)).map(({ id, browser, network = null, signedIn, lastSeen }) => ({
        id,
        browser,
        network,
        signedIn: isoTime(signedIn),
        lastSeen: isoTime(lastSeen),
        isCurrent: id === session.id,
      })),
  }),
  defineRoute({
    method: 'delete',
    path: '/sessions/{id}',
    summary: 'Ends one of your sessions.',
    role: 'viewer',
    async handle({ person, session, params: { id } }, { store }) {
      const found = (await listSessions(store, person)).find(each => each.id === id)
      if (found === undefined || (await store.takeRecord('session', found.id)) === undefined) throw notFound('session')
      if (found.id === session.id) session.end()
    },
  }),
  defineRoute({
    method: 'delete',
    path: '/sessions',
    operationId: 'signOutEverywhere',
    summary: 'Signs out everywhere: ends all your sessions, this one included. Personal access tokens stay.',
    role: 'viewer',
    async handle({ person, session }, { store }) {
      await signOutEverywhere(store, person)
      session.end()
    },
  }),
]
