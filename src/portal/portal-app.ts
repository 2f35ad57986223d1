import Router from '@koa/router'
import type Koa from 'koa'
import type { RouterContext } from '@koa/router'
import { bearerTokenOf } from '../server/bearer-token.ts'
import { createClientAddressReader } from '../server/client-address.ts'
import type { ReadClientAddress } from '../server/client-address.ts'
import { networkOf } from '../util/address-set.ts'
import { useAccessToken } from './people/access-tokens.ts'
import { ApiError, storeUnavailableForDevelopers } from './api-errors.ts'
import { AccountStreams } from './account-events.ts'
import { firstRequestsOfDeveloper } from './first-requests.ts'
import { createPageApp } from './page-app.ts'
import { findPerson } from './people/people.ts'
import type { Role } from '../services/accounts/account-fields.ts'
import type { Person } from './people/people.ts'
import { portalCookieName, portalOpenApi } from './portal-openapi.ts'
import type { PortalServices } from './portal-services.ts'
import { readRequest, requireRole, routerPath } from './route.ts'
import type { Route, SessionControl } from './route.ts'
import { accountRoutes } from './routes/account.ts'
import { accountChangeRoutes } from './routes/account-changes.ts'
import { alertRoutes } from './routes/alerts.ts'
import { keyRoutes } from './routes/keys.ts'
import { networkRoutes } from './routes/networks.ts'
import { oidcRoutes } from './routes/oidc.ts'
import { emailConfirmationRoutes } from './routes/email-confirmations.ts'
import { peopleRoutes } from './routes/people.ts'
import { requestRoutes } from './routes/requests.ts'
import { sessionRoutes } from './routes/session.ts'
import { sessionListRoutes } from './routes/sessions.ts'
import { tokenRoutes } from './routes/tokens.ts'
import { usageRoutes } from './routes/usage.ts'
import { requireHost } from './security.ts'
import { hasEnded, isHttps, sessionIdOf, sessionOf, signIn, signInSecretOf, signOut } from './people/sessions.ts'
import { readSigningKey } from './signing-key.ts'

// What else is loaded with the first request.
export { openOutageHistory } from './alerts/outage-days.ts'
export { openPortalLimits } from './portal-limits.ts'
export { openOidcProvider } from './people/oidc-provider.ts'
export { createBrand } from './brand.ts'

/** Everything that the API can do. */
export const routes: readonly Route[] = [
  ...sessionRoutes,
  ...emailConfirmationRoutes,
  ...oidcRoutes,
  ...accountRoutes,
  ...accountChangeRoutes,
  ...usageRoutes,
  ...requestRoutes,
  ...alertRoutes,
  ...keyRoutes,
  ...networkRoutes,
  ...peopleRoutes,
  ...tokenRoutes,
  ...sessionListRoutes,
]

interface PortalHostOptions {
  readonly listenHost: string
  readonly trustedProxies: readonly string[]
}

/** The dashboard: a page, and the API that it uses. */
export const createPortalApp = (services: PortalServices, { listenHost, trustedProxies }: PortalHostOptions): Koa => {
  const { store, clock, log, url, networks, portalSecret, brand } = services
  return createPageApp({
    log,
    connectSources: networks.flatMap(({ http, ws }) => [http, ws]),
    first: requireHost(url, listenHost),
    page: {
      page: 'developer',
      brand,
      isPagePath: path => !path.startsWith('/api/'),
      firstRequests: ({ path }, hasSession) => firstRequestsOfDeveloper(path, hasSession),
    },
    session: {
      store,
      clock,
      cookieName: portalCookieName,
      sameSite: 'lax',
      secure: isHttps(url),
      readSigningKey: async () => (await readSigningKey(store, portalSecret, 'session-cookies')).reveal(),
    },
    beforeApi: identifyCaller(createClientAddressReader(trustedProxies)),
    api: apiRouter(services),
    storeUnavailable: storeUnavailableForDevelopers,
    unknownPath: 'the API has no such path; /api/v1/openapi.json lists its paths',
  })
}

const identifyCaller =
  (readAddress: ReadClientAddress): Koa.Middleware =>
  (ctx, next) => {
    ctx.state['callerNetwork'] = networkOf(readAddress(ctx.req))
    return next()
  }

const callerNetworkOf = (ctx: Koa.Context): string => String(ctx.state['callerNetwork'])

const apiRouter = (services: PortalServices): Router => {
  const router = new Router({ prefix: '/api/v1' })
  const document = portalOpenApi(routes, services)
  const streams = new AccountStreams(services)
  router.get('/openapi.json', ctx => {
    ctx.body = document
  })
  router.get('/events', async ctx => {
    const authenticate = async () => ((await hasEnded(ctx, services.store)) ? throwNotSignedIn() : personOf(ctx, services))
    await streams.open(ctx, await personOf(ctx, services), authenticate)
  })
  for (const route of routes) {
    router[route.method](routerPath(route), ctx => runRoute(route, ctx, services))
  }
  return router
}

const runRoute = async (route: Route, ctx: RouterContext, services: PortalServices): Promise<void> => {
  const person = route.role === 'anyone' ? undefined : await personWithRole(route.role, ctx, services)
  const session: SessionControl = {
    person: sessionOf(ctx)?.person,
    id: sessionIdOf(ctx),
    start: ({ id, account }) => signIn(ctx, { id, account, network: callerNetworkOf(ctx) }, services.clock),
    end: () => signOut(ctx),
  }
  const request = {
    callerNetwork: callerNetworkOf(ctx),
    ...readRequest(route, ctx),
    session,
    signInSecret: signInSecretOf(ctx, isHttps(services.url)),
    person,
  }
  if (person !== undefined) countChange(route, person, services)
  const result = await route.handle(request as never, services) // checked against the schemas that its types follow from
  ctx.status = route.status ?? (route.response === undefined ? 204 : 200)
  if (route.response !== undefined) ctx.body = result
}

/**
 * Throws ApiError, 429, for more writes in an hour than are allowed. Concurrent ones count before they are done. What a viewer may change is
 * about themselves: a viewer keeps nobody else from changes.
 */
const countChange = (route: Route, { id, account }: Person, { limits }: PortalServices): void => {
  if (route.method === 'get') return
  const isRemoval = route.isRemoval ?? route.method === 'delete'
  const [limit, who] = isRemoval ? [limits.removals, id] : [limits.changes, route.role === 'viewer' ? id : account]
  limit.attempt(who)
}

const personWithRole = async (role: Role, ctx: Koa.Context, services: PortalServices): Promise<Person> => {
  const person = await personOf(ctx, services)
  requireRole(person, role)
  return person
}

/** Who asks, by token or by session, as the store has it now. Rejects with ApiError, for a person who was removed too. */
const personOf = async (ctx: Koa.Context, services: PortalServices): Promise<Person> => {
  const token = bearerTokenOf(ctx.req)
  if (token !== undefined) return tokenOwnerOf(token, ctx, services)
  const session = sessionOf(ctx)
  return (session && (await findPerson(services.store, session.person))) ?? throwNotSignedIn()
}

const tokenOwnerOf = async (token: string, ctx: Koa.Context, { store, clock, limits }: PortalServices): Promise<Person> => {
  const use = () => useAccessToken(store, clock, token)
  const { person, isReadOnly } = (await limits.failedTokens.attemptToFind(callerNetworkOf(ctx), use)) ?? throwNotSignedIn()
  // Also what a viewer may change: a token that reads must not become one that changes, nor its person somebody else.
  if (isReadOnly && !['GET', 'HEAD'].includes(ctx.method)) throw new ApiError(403, 'role', 'this token is read-only: it changes nothing')
  return person
}

const throwNotSignedIn = (): never => {
  throw new ApiError(401, 'not-signed-in', 'sign in, or send a personal access token')
}
