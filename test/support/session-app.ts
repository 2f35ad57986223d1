import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Koa from 'koa'
import type { Test } from 'tap'
import { sessionMiddleware } from '../../src/portal/people/sessions.ts'
import type { SessionOptions } from '../../src/portal/people/sessions.ts'

/** An application with the sessions of the portal alone. Requests its paths with a cookie, and resolves with the cookie that is set. */
export const startSessionApp = async (
  t: Test,
  { store, clock }: Pick<SessionOptions, 'store' | 'clock'>,
  handle: (ctx: Koa.Context) => Promise<void> | void,
): Promise<(path: string, cookie?: string) => Promise<string>> => {
  const app = new Koa()
  const options = { cookieName: 'test', sameSite: 'lax', secure: false, readSigningKey: () => 'key' } as const
  app.use(sessionMiddleware(app, { ...options, store, clock }))
  app.use(async ctx => {
    ctx.body = ''
    await handle(ctx)
  })
  const server = createServer(app.callback()).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return async (path, cookie = '') => {
    const { headers } = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { cookie, connection: 'close' } })
    const cookies = headers.getSetCookie().map(each => each.split(';')[0])
    return cookies.join('; ')
  }
}
