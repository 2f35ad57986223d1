import Router from '@koa/router'
import type { RouterContext } from '@koa/router'
import type { AdminToken } from '../../server/admin-token.ts'
import { RecordedAccounts } from '../../services/accounts/recorded-accounts.ts'
import { notFound } from '../api-error.ts'
import { checkInput } from '../route.ts'
import { operatorAccountRoutes } from './operator-accounts.ts'
import { authenticateOperator } from './operator-login.ts'
import { operatorReportRoutes } from './operator-reports.ts'
import type { OperatorRoute, OperatorServices } from './operator-route.ts'

/** Everything that the operator's API can do. */
export const operatorRoutes: readonly OperatorRoute[] = [...operatorAccountRoutes, ...operatorReportRoutes]

/** The operator's API, for those who send the token or have signed in with it. */
export const operatorApiRouter = (token: AdminToken, openServices: () => Promise<Omit<OperatorServices, 'accounts'>>): Router => {
  const router = new Router({ prefix: '/api/v1' })
  for (const route of operatorRoutes) {
    router[route.method](route.path.replaceAll(/\{(\w+)\}/g, ':$1'), async ctx => {
      const author = authenticateOperator(ctx, token)
      const services = await openServices()
      const accounts = new RecordedAccounts(services.store, services.clock, { kind: 'operator', name: `admin ${author}` })
      await runRoute(route, ctx, { ...services, accounts })
    })
  }
  router.all('/{*path}', ctx => {
    authenticateOperator(ctx, token)
    throw notFound('path')
  })
  return router
}

const runRoute = async (
  { query, body, status = 200, handle }: OperatorRoute,
  ctx: RouterContext,
  services: OperatorServices,
): Promise<void> => {
  const request = {
    params: ctx.params as Readonly<Record<string, string>>,
    query: query && checkInput('query', query, { ...ctx.query }),
    body: body && checkInput('body', body, ctx.request.body),
  }
  ctx.body = await handle(request as never, services) // checked against the schemas that its types follow from
  ctx.status = status
}
