import { randomBytes } from 'node:crypto'
import type Koa from 'koa'
import type { Log } from '../services/log.ts'
import { StoreError } from '../store/store.ts'
import { ApiError } from './api-error.ts'

/** The one place that turns errors into responses. */
export const respondWithErrors =
  (log: Log): Koa.Middleware =>
  async (ctx, next) => {
    try {
      await next()
    } catch (error) {
      const shown = toApiError(error)
      if (shown.status === 500) {
        const requestId = randomBytes(8).toString('hex')
        log.error({ err: error, requestId }, 'dashboard request failed because of a bug')
        ctx.set('X-Request-Id', requestId)
      }
      if (shown.retryAfter !== undefined) ctx.set('Retry-After', String(shown.retryAfter))
      ctx.status = shown.status
      ctx.body = shown
    }
  }

const toApiError = (error: unknown): ApiError => {
  if (error instanceof ApiError) return error
  if (error instanceof StoreError) return new ApiError(503, 'store-unavailable', 'the store is unreachable; calls to networks continue')
  // Of koa-bodyparser: a body that is no JSON, or too large.
  const status = error instanceof Error && 'status' in error ? Number(error.status) : 500
  return status >= 400 && status < 500
    ? new ApiError(status, 'malformed', status === 413 ? 'the body is too large' : 'the body is not valid JSON')
    : new ApiError(500, 'internal', 'internal error')
}
