import Koa from 'koa'
import type { StoreAddress } from '../../config/types.ts'
import type { ServeRequest } from '../../server/admin.ts'
import type { AdminToken } from '../../server/admin-token.ts'
import { closeOnUnreadBody, parseJsonBody } from '../../server/request-body.ts'
import type { Store } from '../../store/store.ts'
import { ApiError, respondWithErrors } from '../api-errors.ts'
import { servePage } from '../page-files.ts'
import { openQueryProcess } from '../queries/query-process.ts'
import { refuseCrossSite, securityHeaders } from '../security.ts'
import { isHttps, sessionMiddleware } from '../sessions.ts'
import type { SessionOptions } from '../sessions.ts'
import { operatorApiRouter } from './operator-api.ts'
import type { OperatorServices } from './operator-route.ts'
import { operatorCookieName, operatorLogin } from './operator-login.ts'
import { RecentTraffic } from './recent-traffic.ts'

export interface OperatorAppOptions
  extends Pick<OperatorServices, 'networks' | 'metrics' | 'dashboardUrl' | 'secrets' | 'canMail' | 'version' | 'clock' | 'log'> {
  /** The store, which may have to be opened; rejects with StoreError. */
  openStore(): Promise<Store>
  /** Its address, which the process of queries opens too. */
  readonly storeAddress: StoreAddress
  /** The URL that browsers use, when it is another than that of the admin listener. */
  readonly url?: string | undefined
  /** The admin listener has TLS itself. */
  readonly isTls?: boolean
  /** As of now. */
  plans(): OperatorServices['plans']
}

export interface OperatorApp {
  readonly serve: ServeRequest
  close(): Promise<void>
}

const maxBodySize = '64kb'

/** The operator's page, API and sessions, for the admin listener, which has checked the host. */
export const createOperatorApp = (options: OperatorAppOptions, token: AdminToken): OperatorApp => {
  const { openStore, storeAddress, clock, log, url = '', isTls = false, plans } = options
  const recentTraffic = new RecentTraffic(clock)
  const queryProcess = openQueryProcess(storeAddress, clock)
  const openServices = async () => ({ ...options, store: await openStore(), queries: queryProcess.queries, plans: plans(), recentTraffic })
  const app = new Koa()
  // Koa itself would write errors to stderr, in plain text.
  app.on('error', (error: Error) => log.info({ err: error }, 'admin request aborted by the client'))
  app.use(respondWithErrors(log))
  app.use(closeOnUnreadBody)
  app.use(securityHeaders([]))
  app.use(openAtPage)
  app.use(servePage('operator', path => path === pagePath || path.startsWith(`${pagePath}/`)))
  app.use(refuseCrossSite)
  app.use(
    sessionMiddleware(app, {
      ...{
        store: lazyRecordStore(openStore),
        clock,
        cookieName: operatorCookieName,
        sameSite: 'strict',
        secure: isTls || isHttps(url),
      },
      // Another token ends all sessions, on every gateway.
      readSigningKeys: () => [token.deriveKey('session-cookies')],
    }),
  )
  app.use(parseJsonBody(maxBodySize))
  app.use(operatorLogin(token, { clock, log }))
  app.use(operatorApiRouter(token, { ...options, openServices }).routes() as unknown as Koa.Middleware) // its context is Koa's, with the members of the router
  app.use(() => {
    throw new ApiError(404, 'not-found', 'there is no such path')
  })
  return { serve: app.callback(), close: queryProcess.close }
}

/** Not `/`: a probe of a path that does not exist must not find a page there. */
const pagePath = '/operator'

const openAtPage: Koa.Middleware = (ctx, next) => (ctx.path === '/' && ctx.method === 'GET' ? ctx.redirect(pagePath) : next())

/** Opens the store when a session is read. */
const lazyRecordStore = (openStore: () => Promise<Store>): SessionOptions['store'] => ({
  findRecord: async (kind, id) => (await openStore()).findRecord(kind, id),
  putRecord: async (kind, record) => (await openStore()).putRecord(kind, record),
  replaceRecord: async (...change) => (await openStore()).replaceRecord(...change),
  takeRecord: async (kind, id) => (await openStore()).takeRecord(kind, id),
})
