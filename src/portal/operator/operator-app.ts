import { hostname } from 'node:os'
import Router from '@koa/router'
import type { RouterContext } from '@koa/router'
import type Koa from 'koa'
import type { StoreAddress } from '../../config/types.ts'
import type { ServeRequest } from '../../server/admin.ts'
import type { AdminToken } from '../../server/admin-token.ts'
import { RecordedAccounts } from '../../services/accounts/recorded-accounts.ts'
import type { LogLevel } from '../../services/log-settings.ts'
import type { ProcessTraffic } from '../../services/traffic/process-traffic.ts'
import type { MetricFamily } from '../../services/metrics.ts'
import type { LazyStore } from '../../store/lazy-store.ts'
import type { MaybePromise } from '../../util/async.ts'
import { readAcknowledgments } from '../alerts/shared-incidents.ts'
import { notFound, storeUnavailableForOperators } from '../api-errors.ts'
import { nameGateway } from '../brand.ts'
import { openMailer } from '../mail/mailer.ts'
import { firstRequestsOfOperator } from '../first-requests.ts'
import { createPageApp } from '../page-app.ts'
import { openQueryProcess } from '../queries/query-process.ts'
import { readRequest, routerPath } from '../route.ts'
import { isHttps } from '../people/sessions.ts'
import { operations } from '../operations/index.ts'
import type { IncidentsJson } from '../operations/incident-schemas.ts'
import { configurationRoutes } from './configuration-routes.ts'
import { undefinedWithoutStore } from './earlier-activity.ts'
import { networksOf, operationRoute } from './operation-routes.ts'
import type { DescribeMethods } from './operation-routes.ts'
import { authenticateOperator, operatorCookieName, operatorLogin } from './operator-login.ts'
import { createOutageSessions } from './outage-sessions.ts'
import { operatorOpenApi } from './operator-openapi.ts'
import { operatorReportRoutes } from './operator-reports.ts'
import { overviewRoutes } from './overview-routes.ts'
import type { NodeIncidents } from './node-incidents.ts'
import type { OperatorRoute, OperatorServices } from './operator-route.ts'

/** Everything that the operator's API can do. */
export const operatorRoutes: readonly OperatorRoute[] = [
  ...operations.map(operationRoute),
  ...overviewRoutes,
  ...configurationRoutes,
  ...operatorReportRoutes,
]

export interface OperatorAppOptions
  extends Pick<
    OperatorServices,
    'networks' | 'history' | 'observer' | 'reloader' | 'logLevel' | 'dashboardUrl' | 'config' | 'version' | 'clock' | 'log'
  > {
  incidents(): Promise<NodeIncidents>
  /** Of all processes of the gateway. */
  metrics(): MaybePromise<readonly MetricFamily[]>
  /** The counters of each process of the gateway, as of now. */
  traffic(): Promise<readonly ProcessTraffic[]>
  readonly store: LazyStore
  /** Its address, which the process of queries opens too. */
  readonly storeAddress: StoreAddress
  /** The URL that browsers use, when it is another than that of the admin listener. */
  readonly url?: string | undefined
  /** The admin listener has TLS itself. */
  readonly isTls?: boolean
  /** As of now. */
  reloadable(): Pick<OperatorServices, 'plans' | 'requestLog'>
  readonly describeMethods: DescribeMethods
}

interface OperatorApp {
  readonly serve: ServeRequest
  close(): Promise<void>
}

/** The operator's page, API and sessions, for the admin listener, which has checked the host. */
export const createOperatorApp = (options: OperatorAppOptions, token: AdminToken): OperatorApp => {
  const { store, storeAddress, clock, log, url = '', isTls = false } = options
  const queryProcess = openQueryProcess(storeAddress, clock)
  const { smtp } = options.config.portal
  const sendMail = smtp && openMailer(smtp, log)
  const networkServices = networksOf(options.describeMethods)
  const readServices = () => {
    const { plans, requestLog } = options.reloadable()
    return {
      ...options,
      ...networkServices,
      sendMail,
      plans,
      requestLog,
      nodes: async () => ({ networks: await options.networks(), isLive: true }),
      readLogLevel: () => options.logLevel.level,
      setLogLevel(to: LogLevel) {
        log.warn({ event: 'log-level', from: options.logLevel.level, to }, `log level set to ${to}`)
        options.logLevel.level = to
      },
      async readIncidents(network: string | undefined): Promise<IncidentsJson> {
        const { since, incidents } = (await options.incidents()).read(network)
        const find = await readAcknowledgments(store).catch(undefinedWithoutStore)
        const acknowledgmentOf = (each: (typeof incidents)[number]) =>
          each.ended !== null || each.network === null ? null : (find?.({ ...each, network: each.network }) ?? null)
        return { since, incidents: incidents.map(each => ({ ...each, acknowledged: acknowledgmentOf(each) })) }
      },
      queries: queryProcess.queries,
      startQueries: queryProcess.start,
    }
  }
  const app = createPageApp({
    log,
    connectSources: [],
    first: openAtPage,
    page: {
      page: 'operator',
      brand: nameGateway(hostname()),
      isPagePath: path => path === pagePath || path.startsWith(`${pagePath}/`),
      firstRequests: ({ path, query }, hasSession) => firstRequestsOfOperator(path, query['range'], hasSession),
    },
    session: {
      store: createOutageSessions(store, clock),
      clock,
      cookieName: operatorCookieName,
      sameSite: 'strict',
      secure: isTls || isHttps(url),
      // Another token ends all sessions, on every gateway.
      readSigningKey: () => token.deriveKey('session-cookies'),
    },
    beforeApi: operatorLogin(token, { clock, log }),
    api: apiRouter(token, options, readServices),
    storeUnavailable: storeUnavailableForOperators,
    unknownPath: 'there is no such path',
  })
  return { serve: app.callback(), close: queryProcess.close }
}

/** What the routes get, but for who asks. */
type CommonServices = Omit<OperatorServices, 'accounts' | 'authentication'>

/** The API, for those who send the token or have signed in with it. */
const apiRouter = (token: AdminToken, options: OperatorAppOptions, readServices: () => CommonServices): Router => {
  const router = new Router({ prefix: '/api/v1' })
  const document = operatorOpenApi(operatorRoutes, options)
  router.get('/openapi.json', ctx => {
    authenticateOperator(ctx, token)
    ctx.body = document
  })
  for (const route of operatorRoutes) {
    router[route.method](routerPath(route), async ctx => {
      const authentication = authenticateOperator(ctx, token)
      const services = readServices()
      const { by, name = `admin ${by}` } = authentication
      const accounts = new RecordedAccounts(services.store, services.clock, { kind: 'operator', name })
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

/** Not `/`: a probe of a path that does not exist must not find a page there. */
const pagePath = '/operator'

const openAtPage: Koa.Middleware = (ctx, next) => (ctx.path === '/' && ctx.method === 'GET' ? ctx.redirect(pagePath) : next())
