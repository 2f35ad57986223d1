import { PassThrough } from 'node:stream'
import type Koa from 'koa'
import type { Person } from './people.ts'
import type { PortalServices } from './portal-services.ts'
import { readAccountReport } from './routes/account.ts'

/** How often the figures are read, and sent if they have changed. */
const updateIntervalMs = 1_000

/** Proxies close connections that are silent for a minute. */
const keepAliveIntervalMs = 20_000

/**
 * Server-sent events: `account` with what GET /account returns, each time that it has changed. The stream ends when
 * `authenticate` rejects: the session or the token has ended, or the store is unreachable.
 */
export const streamAccount = (ctx: Koa.Context, authenticate: () => Promise<Person>, services: PortalServices): void => {
  const stream = new PassThrough()
  let lastSent = ''
  let isReading = false
  const update = async (): Promise<void> => {
    if (isReading) return
    isReading = true
    try {
      const { account } = await authenticate()
      const { now, ...report } = await readAccountReport(services, account)
      const text = JSON.stringify(report)
      if (text !== lastSent) stream.write(`event: account\ndata: ${JSON.stringify({ ...report, now })}\n\n`)
      lastSent = text
    } catch {
      // The page connects again, and is told what is wrong.
      stream.end()
    } finally {
      isReading = false
    }
  }
  const updates = services.clock.every(updateIntervalMs, () => void update())
  const keepAlives = services.clock.every(keepAliveIntervalMs, () => stream.write(': keep-alive\n\n'))
  stream.once('close', () => {
    updates.cancel()
    keepAlives.cancel()
  })
  // The other pages have queries; the process of queries must not slow down the first figures.
  void update().then(services.startQueries)
  ctx.type = 'text/event-stream'
  ctx.body = stream
}
