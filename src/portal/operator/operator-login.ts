import type Koa from 'koa'
import type { ObjectSchema } from '../../plugin/options-schema.ts'
import type { AdminToken, TokenCheck } from '../../server/admin-token.ts'
import type { Clock } from '../../services/clock.ts'
import type { Log } from '../../services/log.ts'
import { ApiError, tooManyAttempts } from '../api-errors.ts'
import { checkInput } from '../check-input.ts'
import { sessionOf, signIn, signOut } from '../people/sessions.ts'

/** Cookies of one host are sent to all its ports: the dashboard's has another name. */
export const operatorCookieName = 'tollgate-operator'

/** Who a session of the admin listener is for. The ids of people begin with usr_. */
const operator = { id: 'operator', account: '' }

const loginBody = {
  type: 'object',
  properties: { token: { type: 'string', minLength: 1, description: 'The token of the admin listener.' } },
  required: ['token'],
} as const satisfies ObjectSchema

/** `POST /login` starts a session with the token, `POST /logout` ends it. */
export const operatorLogin =
  (token: AdminToken, { clock, log }: { readonly clock: Clock; readonly log: Log }): Koa.Middleware =>
  async (ctx, next) => {
    if (ctx.method !== 'POST' || (ctx.path !== '/login' && ctx.path !== '/logout')) return next()
    if (ctx.path === '/login') {
      const body = checkInput('body', loginBody, ctx.request.body) as { readonly token: string } // by its schema
      if (!isValid(token.check(ctx.req, body.token)))
        throw new ApiError(401, 'token-invalid', 'this is not the token of the admin listener', 'token')
      await signIn(ctx, operator, clock)
      log.info({ event: 'operator-signed-in' }, 'operator signed in on the admin listener')
    } else signOut(ctx)
    ctx.status = 204
    return undefined
  }

/** How the operator has proven who they are. Throws ApiError when they have not. */
export const authenticateOperator = (ctx: Koa.Context, token: AdminToken): 'token' | 'session' => {
  const check = token.checkAuthorization(ctx.req)
  if (check !== undefined && isValid(check)) return 'token'
  if (check === undefined && sessionOf(ctx)?.person === operator.id) return 'session'
  ctx.set('WWW-Authenticate', 'Bearer')
  throw new ApiError(401, 'not-signed-in', 'sign in, or send the token of the admin listener')
}

const isValid = (check: TokenCheck): boolean => {
  if ('isValid' in check) return check.isValid
  throw tooManyAttempts('wrong tokens', check.retryAfter)
}
