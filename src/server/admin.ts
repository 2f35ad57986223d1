import type { IncomingMessage, ServerResponse } from 'node:http'
import Koa from 'koa'
import type { Reloader } from '../core/reloader.ts'
import type { Secret } from '../plugin/secret.ts'
import type { Clock } from '../services/clock.ts'
import type { Log } from '../services/log.ts'
import { formatMetrics, metricsFormats } from '../services/metrics.ts'
import type { MetricFamily, Metrics } from '../services/metrics.ts'
import { AdminToken, requireToken } from './admin-token.ts'
import { createClientAddressReader } from './client-address.ts'
import { namesKnownHost } from './known-host.ts'
import { reopenAccessLog, respondAccessLog, respondLevel, setAccessLog, setLevel } from './log-routes.ts'
import type { LogControls } from './log-routes.ts'
import { storeStatusOf } from './store-status.ts'
import type { NetworkStatus } from './network-status.ts'
import { closeOnUnreadBody, parseJsonBody } from './request-body.ts'
import { withoutBrackets } from '../util/host-name.ts'

/** Resolves when the response has been written. */
export type ServeRequest = (req: IncomingMessage, res: ServerResponse) => Promise<void>

/** Reads the configuration anew, and says what that changes. */
export type ReloadControl = Pick<Reloader, 'reload' | 'preview' | 'current'>

export interface AdminOptions extends LogControls {
  /** False before the networks have started and from SIGTERM on: send no more traffic here. */
  isReady(): boolean
  /** For `/readyz?verbose`: as of now. */
  networks(): Promise<readonly NetworkStatus[]>
  metrics(): readonly MetricFamily[] | Promise<readonly MetricFamily[]>
  /** Reloads the configuration; undefined where that is not possible. */
  readonly reloader: ReloadControl | undefined
  /** What people and scripts of the operator use: sign-in, page and /api/v1; loaded with its first request. Undefined without a token. */
  readonly operatorApp: ((token: AdminToken) => Promise<ServeRequest>) | undefined
  /** Required of those who reload, use the operator's API, and read or change the logs; without a token nobody can. */
  readonly token: Secret | undefined
  /** The same for single operators, by their names. */
  readonly tokens?: Readonly<Record<string, Secret>> | undefined
  /** Addresses and subnets of proxies, which say where a request comes from. */
  readonly trustedProxies: readonly string[]
  readonly clock: Clock
  /** Of this process; `metrics` are those of all processes of the gateway. */
  readonly ownMetrics: Metrics
  /** The URL behind a proxy, whose host requests may name besides loopback names and the address that they come in on. */
  readonly url: string | undefined
}

/**
 * `/livez` (restart the process when it fails), `/readyz` (route to the process while it is 200), `/metrics` (Prometheus),
 * `/log-level`, `/access-log` and `/reload`; the rest is the operator's application. Probes and scrapers name the host as they find it; all else is
 * only for those who know the listener's name.
 */
export const createAdminApp = ({ token: secret, tokens, url, ...options }: AdminOptions): Koa => {
  const { log, clock, reloader, trustedProxies } = options
  const token =
    secret && new AdminToken({ token: secret, tokens, clock, log, readClientAddress: createClientAddressReader(trustedProxies) })
  const app = new Koa()
  app.on('error', error => logRequestError(log, error))
  app.use(closeOnUnreadBody)
  app.use(at('/livez', respondTo({ GET: respondAlive })))
  app.use(at('/readyz', respondTo({ GET: ctx => respondReadiness(ctx, options) })))
  app.use(at('/metrics', respondTo({ GET: ctx => respondMetrics(ctx, options) })))
  app.use(requireKnownHost(url === undefined ? [] : [withoutBrackets(new URL(url).hostname)]))
  const { operatorApp } = options
  if (token === undefined || operatorApp === undefined) return app.use(at('/operator', respondTo({ GET: explainMissingToken })))
  for (const path of ['/log-level', '/access-log', '/access-log/reopen']) {
    app.use(at(path, requireToken(token)))
    app.use(at(path, parseJsonBody(maxBodySize)))
  }
  app.use(at('/log-level', respondTo({ GET: ctx => respondLevel(ctx, options), PUT: ctx => setLevel(ctx, options) })))
  app.use(at('/access-log', respondTo({ GET: ctx => respondAccessLog(ctx, options), PUT: ctx => setAccessLog(ctx, options) })))
  app.use(at('/access-log/reopen', respondTo({ POST: ctx => reopenAccessLog(ctx, options) })))
  if (reloader !== undefined) {
    app.use(at('/reload', requireToken(token)))
    app.use(
      at('/reload', respondTo({ GET: ctx => respondReload(ctx, reloader.preview), POST: ctx => respondReload(ctx, reloader.reload) })),
    )
  }
  app.use(async ctx => {
    const serve = await operatorApp(token)
    ctx.respond = false
    await serve(ctx.req, ctx.res)
  })
  return app
}

const maxBodySize = '1kb'

/** Koa itself would write errors to stderr, in plain text. */
const logRequestError = (log: Log, error: NodeJS.ErrnoException & { readonly status?: number }): void => {
  if (error.status !== undefined && error.status < 500) return // a malformed body: the client gets the status
  if (error.syscall === undefined) log.error({ err: error }, 'admin request failed because of a bug')
  else log.info({ err: error }, 'admin request aborted by the client')
}

/** See namesKnownHost(). */
const requireKnownHost =
  (hosts: readonly string[]): Koa.Middleware =>
  (ctx, next) => {
    if (namesKnownHost(ctx.req, hosts)) return next()
    ctx.status = 421
    ctx.body = { error: 'this host is not known: admin.url names the host of the admin listener behind a proxy' }
    return undefined
  }

const at =
  (path: string, middleware: Koa.Middleware): Koa.Middleware =>
  (ctx, next) =>
    ctx.path === path ? middleware(ctx, next) : next()

type Responder = (ctx: Koa.Context) => void | Promise<void>

/** The last middleware of a path; HEAD is a GET without a body. */
const respondTo =
  (responders: Readonly<Record<string, Responder>>): Koa.Middleware =>
  ctx => {
    const respond = responders[ctx.method === 'HEAD' ? 'GET' : ctx.method]
    if (respond !== undefined) return respond(ctx)
    ctx.set('Allow', Object.keys(responders).join(', '))
    ctx.status = 405
  }

const respondAlive: Responder = ctx => {
  ctx.body = 'ok\n'
}

const explainMissingToken: Responder = ctx => {
  ctx.status = 404
  ctx.body = 'The page of the operator needs a token: set `admin.token` in gateway.yaml.\n'
}

type ReadinessOptions = Pick<AdminOptions, 'isReady' | 'networks' | 'metrics'>

const respondReadiness = async (ctx: Koa.Context, { isReady, networks, metrics }: ReadinessOptions): Promise<void> => {
  const statuses = 'verbose' in ctx.query ? await networks() : undefined
  const store = statuses && storeStatusOf(await metrics())
  const ready = isReady()
  ctx.body = statuses ? { ready, store, networks: statuses } : ready ? 'ready\n' : 'not ready\n'
  ctx.status = ready ? 200 : 503
}

/** The first is for those who accept anything. */
const mediaTypes = [
  'text/plain; version=0.0.4',
  'application/openmetrics-text; version=1.0.0',
] as const satisfies readonly (keyof typeof metricsFormats)[]

const respondMetrics = async (ctx: Koa.Context, { metrics }: Pick<AdminOptions, 'metrics'>): Promise<void> => {
  const families = await metrics()
  const accepted = ctx.accepts(...mediaTypes)
  const mediaType = mediaTypes.find(each => each === accepted) ?? mediaTypes[0]
  ctx.set('Vary', 'Accept')
  ctx.type = `${mediaType}; charset=utf-8`
  ctx.body = formatMetrics(families, metricsFormats[mediaType])
}

/** 422: what runs serves on, and the problems say why. */
const respondReload = async (ctx: Koa.Context, reload: Reloader['reload']): Promise<void> => {
  const { isApplied, changes, problems } = await reload()
  ctx.status = problems.length === 0 ? 200 : 422
  ctx.body = {
    applied: isApplied,
    changes,
    problems: problems.map(({ message, file, line, column, hint }) => ({ file, line, column, message, hint })),
  }
}
