import Router from '@koa/router'
import type Koa from 'koa'
import bodyParser from 'koa-bodyparser'
import type { StoreAddress } from '../../config/types.ts'
import { RecordedAccounts } from '../../services/accounts/recorded-accounts.ts'
import { notFound } from '../api-error.ts'
import { respondWithErrors } from '../error-responses.ts'
import { openQueryProcess } from '../queries/query-process.ts'
import { checkInput } from '../route.ts'
import { operatorAccountRoutes } from './operator-accounts.ts'
import { operatorReportRoutes } from './operator-reports.ts'
import type { OperatorRoute, OperatorServices } from './operator-route.ts'

export interface OperatorApiOptions extends Pick<OperatorServices, 'store' | 'clock' | 'log'> {
  /** The address of `store`, which the process of queries opens too. */
  readonly storeAddress: StoreAddress
  /** As of now. */
  plans(): OperatorServices['plans']
}

export interface OperatorApi {
  readonly middleware: Koa.Middleware
  close(): Promise<void>
}

/** Everything that the operator's API can do. */
export const operatorRoutes: readonly OperatorRoute[] = [...operatorAccountRoutes, ...operatorReportRoutes]

const maxBodySize = '64kb'

/** The operator's API, for a listener that lets only the operator in. */
export const createOperatorApi = ({ storeAddress, plans, ...options }: OperatorApiOptions): OperatorApi => {
  const { store, clock, log } = options
  const queryProcess = openQueryProcess(storeAddress, clock)
  const accounts = new RecordedAccounts(store, clock, { kind: 'operator', name: 'admin token' })
  const services = () => ({ ...options, accounts, queries: queryProcess.queries, plans: plans() })
  const router = new Router({ prefix: '/api/v1' })
  router.use(respondWithErrors(log))
  router.use(bodyParser({ enableTypes: ['json'], jsonLimit: maxBodySize }))
  for (const { method, path, query, body, status = 200, handle } of operatorRoutes) {
    router[method](path.replaceAll(/\{(\w+)\}/g, ':$1'), async ctx => {
      const request = {
        params: ctx.params as Readonly<Record<string, string>>,
        query: query && checkInput('query', query, { ...ctx.query }),
        body: body && checkInput('body', body, ctx.request.body),
      }
      ctx.set('Cache-Control', 'no-store')
      ctx.body = await handle(request as never, services()) // checked against the schemas that its types follow from
      ctx.status = status
    })
  }
  const routes = router.routes() as unknown as Koa.Middleware // its context is Koa's, with the members of the router
  return { middleware: ctx => routes(ctx, async () => respondNotFound(ctx)), close: queryProcess.close }
}

const respondNotFound = (ctx: Koa.Context): void => {
  ctx.status = 404
  ctx.body = notFound('path')
}
