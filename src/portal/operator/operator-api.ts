import Router from '@koa/router'
import type { RouterContext } from '@koa/router'
import type { AdminToken } from '../../server/admin-token.ts'
import { RecordedAccounts } from '../../services/accounts/recorded-accounts.ts'
import { notFound } from '../api-errors.ts'
import { readRequest, routerPath } from '../route.ts'
import type { JsonSchema } from '../../config/schema.ts'
import { openApiDocument } from '../openapi.ts'
import { isHttps, sessionCookieName } from '../sessions.ts'
import { operatorAlertRoutes } from './operator-alerts.ts'
import { operatorKeyRoutes } from './operator-keys.ts'
import { operatorCookieName, authenticateOperator } from './operator-login.ts'
import { operatorNodeRoutes } from './operator-nodes.ts'
import { operatorSchemas } from './operator-schemas.ts'
import { operatorAccountRoutes } from './operator-accounts.ts'
import { operatorReportRoutes } from './operator-reports.ts'
import type { OperatorRoute, OperatorServices } from './operator-route.ts'

/** Everything that the operator's API can do. */
export const operatorRoutes: readonly OperatorRoute[] = [
  ...operatorAccountRoutes,
  ...operatorAlertRoutes,
  ...operatorKeyRoutes,
  ...operatorNodeRoutes,
  ...operatorReportRoutes,
]

/** The API as an OpenAPI document. */
export const operatorOpenApi = ({ url = '', isTls, version }: Pick<OperatorApiOptions, 'url' | 'isTls' | 'version'>): JsonSchema =>
  openApiDocument(operatorRoutes, {
    title: 'Tollgate operator',
    version,
    url: url.replace(/\/$/, ''),
    description:
      'Accounts, keys, usage, nodes and the log of changes. Send `admin.token` of gateway.yaml as `Authorization: Bearer TOKEN`, or open a ' +
      'session: POST /login, beside /api/v1, with `{"token": "TOKEN"}`.',
    tokenDescription: '`admin.token` of gateway.yaml.',
    cookieName: sessionCookieName(operatorCookieName, isTls === true || isHttps(url)),
    schemas: operatorSchemas,
  })

interface OperatorApiOptions {
  /** The URL that browsers use; undefined where it is that of the admin listener. */
  readonly url?: string | undefined
  /** The admin listener has TLS itself. */
  readonly isTls?: boolean
  readonly version: string
  openServices(): Promise<Omit<OperatorServices, 'accounts' | 'authentication'>>
}

/** The operator's API, for those who send the token or have signed in with it. */
export const operatorApiRouter = (token: AdminToken, options: OperatorApiOptions): Router => {
  const router = new Router({ prefix: '/api/v1' })
  const document = operatorOpenApi(options)
  router.get('/openapi.json', ctx => {
    authenticateOperator(ctx, token)
    ctx.body = document
  })
  for (const route of operatorRoutes) {
    router[route.method](routerPath(route), async ctx => {
      const authentication = authenticateOperator(ctx, token)
      const services = await options.openServices()
      const accounts = new RecordedAccounts(services.store, services.clock, { kind: 'operator', name: `admin ${authentication}` })
      await runRoute(route, ctx, { ...services, accounts, authentication })
    })
  }
  router.all('/{*path}', ctx => {
    authenticateOperator(ctx, token)
    throw notFound('path')
  })
  return router
}

const runRoute = async (route: OperatorRoute, ctx: RouterContext, services: OperatorServices): Promise<void> => {
  ctx.body = await route.handle(readRequest(route, ctx) as never, services) // checked against the schemas that its types follow from
  ctx.status = route.status ?? 200
}
