import Koa from 'koa'
import type { HeadsStatus } from '../services/chain-heads/index.ts'
import type { Log } from '../services/log.ts'
import { formatMetrics, metricsContentType } from '../services/metrics.ts'
import type { MetricFamily } from '../services/metrics.ts'

/** What the admin listener tells. */
export interface AdminStatus {
  /** False before the networks have started and from SIGTERM on: send no more traffic here. */
  isReady(): boolean
  /** Told by `/readyz?verbose`; without heads by a primary, whose workers know them. */
  networks(): readonly ({ readonly name: string } & Partial<HeadsStatus>)[]
  metrics(): readonly MetricFamily[] | Promise<readonly MetricFamily[]>
}

/** `/livez` (restart me when it fails), `/readyz` (route to me while it is 200) and `/metrics` (Prometheus). */
export const createAdminApp = (status: AdminStatus, log: Log): Koa => {
  const app = new Koa()
  // Koa would write them to stderr, in plain text.
  app.on('error', (error: NodeJS.ErrnoException) => {
    if (error.syscall === undefined) log.error({ err: error }, 'a request to the admin listener failed because of a bug')
    else log.info({ err: error }, 'a request to the admin listener was broken off')
  })
  app.use(async context => {
    if (context.method !== 'GET' && context.method !== 'HEAD') return void (context.status = 405)
    switch (context.path) {
      case '/livez':
        return void (context.body = 'ok\n')
      case '/readyz':
        return respondReadiness(context, status)
      case '/metrics':
        context.type = metricsContentType
        context.body = formatMetrics(await status.metrics())
    }
  })
  return app
}

const respondReadiness = (context: Koa.Context, status: AdminStatus): void => {
  const ready = status.isReady()
  context.body = 'verbose' in context.query ? { ready, networks: status.networks() } : ready ? 'ready\n' : 'not ready\n'
  context.status = ready ? 200 : 503
}
