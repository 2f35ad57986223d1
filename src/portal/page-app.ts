import type Router from '@koa/router'
import Koa from 'koa'
import { respondWithEventStream } from '../server/event-stream.ts'
import { closeOnUnreadBody, parseJsonBody } from '../server/request-body.ts'
import type { Log } from '../services/log.ts'
import { ApiError, respondWithErrors } from './api-errors.ts'
import { compressJson } from './compression.ts'
import { servePage } from './page-files.ts'
import type { PageOptions } from './page-files.ts'
import { refuseCrossSite, securityHeaders } from './security.ts'
import { sessionCookieName, sessionMiddleware } from './people/sessions.ts'
import type { SessionOptions } from './people/sessions.ts'

interface PageAppOptions {
  readonly log: Log
  /** What the page may connect to besides its own site. */
  readonly connectSources: readonly string[]
  /** In front of the page and the API. */
  readonly first: Koa.Middleware
  readonly page: Omit<PageOptions, 'sessionCookie'>
  readonly session: SessionOptions
  /** In front of the API: it has the session and the body. */
  readonly beforeApi: Koa.Middleware
  readonly api: Router
  /** The message of the error while the store is unreachable. */
  readonly storeUnavailable: string
  /** The message of the error for a path that the API does not have. */
  readonly unknownPath: string
}

/** A page and the API that it uses, with what keeps both safe: for developers, and for operators. */
export const createPageApp = (options: PageAppOptions): Koa => {
  const { log, connectSources, first, page, session, beforeApi, api, storeUnavailable, unknownPath } = options
  const app = new Koa()
  // Koa itself would write errors to stderr, in plain text.
  app.on('error', (error: Error) => log.info({ err: error }, 'dashboard request aborted by the client'))
  app.use(respondWithErrors(log, storeUnavailable))
  app.use(closeOnUnreadBody)
  app.use(securityHeaders(connectSources))
  app.use(first)
  app.use(servePage({ ...page, sessionCookie: sessionCookieName(session.cookieName, session.secure) }))
  app.use(refuseCrossSite(session.secure))
  app.use(respondWithEventStream)
  app.use(compressJson)
  app.use(sessionMiddleware(app, session))
  app.use(parseJsonBody())
  app.use(beforeApi)
  app.use(api.routes())
  app.use(() => {
    throw new ApiError(404, 'not-found', unknownPath)
  })
  return app
}
