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
