import type Koa from 'koa'
import type { ObjectSchema } from '../../plugin/options-schema.ts'
import type { AdminToken, TokenCheck, TokenHolder } from '../../server/admin-token.ts'
import type { Clock } from '../../services/clock.ts'
import type { Log } from '../../services/log.ts'
import { ApiError, tooManyAttempts } from '../api-errors.ts'
import { checkInput } from '../check-input.ts'
import { sessionOf, signIn, signOut } from '../people/sessions.ts'

/** Cookies of one host are sent to all its ports: the dashboard's has another name. */
export const operatorCookieName = 'tollgate-operator'

const loginBody = {
  type: 'object',
  properties: { token: { type: 'string', minLength: 1, description: 'The token of the admin listener, or of an operator.' } },
  required: ['token'],
} as const satisfies ObjectSchema

/** `POST /login` starts a session with the token, `POST /logout` ends it. */
export const operatorLogin =
  (token: AdminToken, { clock, log }: { readonly clock: Clock; readonly log: Log }): Koa.Middleware =>
  async (ctx, next) => {
    if (ctx.method !== 'POST' || (ctx.path !== '/login' && ctx.path !== '/logout')) return next()
    if (ctx.path === '/login') {
      const body = checkInput('body', loginBody, ctx.request.body) as { readonly token: string } // by its schema
      const holder = holderOf(token.check(ctx.req, body.token))
      if (holder === undefined) throw new ApiError(401, 'token-invalid', 'this is not the token of the admin listener', 'token')
      await signIn(ctx, { id: holder.id, account: '' }, clock)
      const { name } = holder
      log.info({ event: 'operator-signed-in', ...(name !== undefined && { operator: name }) }, 'operator signed in on the admin listener')
    } else signOut(ctx)
    ctx.status = 204
    return undefined
  }

/** How an operator has proven who they are. */
export interface OperatorAuthentication {
  readonly by: 'token' | 'session'
  /** Undefined with `admin.token`, which is nobody's. */
  readonly name: string | undefined
}

/** Throws ApiError when they have not. */
export const authenticateOperator = (ctx: Koa.Context, token: AdminToken): OperatorAuthentication => {
  const check = token.checkAuthorization(ctx.req)
  const holder = check === undefined ? token.holder(sessionOf(ctx)?.person ?? '') : holderOf(check)
  if (holder !== undefined) return { by: check === undefined ? 'session' : 'token', name: holder.name }
  ctx.set('WWW-Authenticate', 'Bearer')
  throw new ApiError(401, 'not-signed-in', 'sign in, or send the token of the admin listener')
}

const holderOf = (check: TokenCheck): TokenHolder | undefined => {
  if ('isValid' in check) return check.isValid ? check.holder : undefined
  throw tooManyAttempts('wrong tokens', check.retryAfter)
}
