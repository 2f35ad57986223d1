import { randomBytes } from 'node:crypto'
import type Koa from 'koa'
import type { Log } from '../services/log.ts'
import { StoreError } from '../store/store.ts'

/** An error that the caller of the API gets. `field` names the member of the body or the query that is wrong. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  readonly field: string | undefined
  /** Seconds. */
  readonly retryAfter: number | undefined

  constructor(status: number, code: string, message: string, field?: string, retryAfter?: number) {
    super(message)
    this.status = status
    this.code = code
    this.field = field
    this.retryAfter = retryAfter
  }

  toJSON(): object {
    return { error: { code: this.code, message: this.message, ...(this.field !== undefined && { field: this.field }) } }
  }
}

export const notFound = (what: string): ApiError => new ApiError(404, 'not-found', `there is no such ${what}`)

export const invalidField = (field: string, message: string): ApiError => new ApiError(400, 'invalid', `${field} ${message}`, field)

/** `label` says of what there were too many; `retryAfter` is in seconds. */
export const tooManyAttempts = (label: string, retryAfter: number): ApiError =>
  new ApiError(429, 'too-many-attempts', `too many ${label}: try again in ${retryAfter} s`, undefined, retryAfter)

/** The one place that turns errors into responses. */
export const respondWithErrors =
  (log: Log, storeUnavailable: string): Koa.Middleware =>
  async (ctx, next) => {
    try {
      await next()
    } catch (error) {
      const shown = toApiError(error, storeUnavailable)
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

/** To developers, who have no store: what becomes of their calls. */
export const storeUnavailableForDevelopers =
  'the dashboard can neither read nor change data now. Calls are served from credits that were reserved before; then they get HTTP 503'

export const storeUnavailableForOperators =
  'the database of the gateway (its store) is unreachable: what is in it can neither be read nor changed now. Calls are still served, from credits ' +
  'that were reserved before; once those are used up, calls are refused (503) until it is back'

const toApiError = (error: unknown, storeUnavailable: string): ApiError => {
  if (error instanceof ApiError) return error
  if (error instanceof StoreError) return new ApiError(503, 'store-unavailable', storeUnavailable)
  // Of koa-bodyparser: a body that is no JSON, or too large.
  const status = error instanceof Error && 'status' in error ? Number(error.status) : 500
  return status >= 400 && status < 500
    ? new ApiError(status, 'malformed', status === 413 ? 'the body is too large' : 'the body is not valid JSON')
    : new ApiError(500, 'internal', 'internal error')
}
