import type { RouterContext } from '@koa/router'
import type { JsonSchema } from '../config/schema.ts'
import type { Infer, ObjectSchema } from '../plugin/options-schema.ts'
import { ApiError } from './api-errors.ts'
import { checkInput } from './check-input.ts'
import { hasRole } from './people/people.ts'
import type { Role } from '../services/accounts/account-fields.ts'
import type { Person } from './people/people.ts'
import type { PortalServices } from './portal-services.ts'

/** What the API's description says of a route. */
export interface RouteBase<Query, Body> {
  readonly method: 'get' | 'post' | 'patch' | 'delete'
  /** Below /api/v1; parameters as `{id}`. */
  readonly path: string
  readonly summary: string
  /** What generated clients call the request, where it is not what operationIdOf() makes of method and path. */
  readonly operationId?: string
  readonly query?: Query
  readonly body?: Body
  /** What a success returns; undefined: nothing, status 204. */
  readonly response?: JsonSchema
  /** Of a success: 200 unless given. */
  readonly status?: number
}

export interface RouteRequest<Query = unknown, Body = unknown, Caller = Role> {
  /** Who asks: everything is about their account. */
  readonly person: Caller extends 'anyone' ? undefined : Person
  /** The network of the address that asks, by which attempts are limited. */
  readonly callerNetwork: string
  readonly params: Readonly<Record<string, string>>
  readonly query: Query
  readonly body: Body
  readonly session: SessionControl
  readonly signInSecret: SignInSecret
}

/** Starts and ends the session of the browser that asks. */
export interface SessionControl {
  /** The id of the person who is signed in; undefined where nobody is. */
  readonly person: string | undefined
  /** Of the session, as lists have it. */
  readonly id: string
  start(person: Person): Promise<void>
  end(): void
}

/** A secret that only the browser that asks has, in a cookie, while somebody signs in at a provider. */
export interface SignInSecret {
  get(): string | undefined
  set(secret: string, ttlMs: number): void
  clear(): void
}

/** One action of the API. The routes, their validation and the OpenAPI document are made from these. */
export interface Route<
  Query extends ObjectSchema = ObjectSchema,
  Body extends ObjectSchema = ObjectSchema,
  Caller extends Role | 'anyone' = Role | 'anyone',
> extends RouteBase<Query, Body> {
  /** The least role that may do it; `anyone`: before anybody has signed in. */
  readonly role: Caller
  /** Takes something away, as routes of the method `delete` do: `limits.removals` bounds it in place of `limits.changes`. */
  readonly isRemoval?: true
  handle(request: RouteRequest<Infer<Query>, Infer<Body>, Caller>, services: PortalServices): unknown
}

/** Ties the types of query, body and caller to what the route says of them. */
export const defineRoute = <const Query extends ObjectSchema, const Body extends ObjectSchema, Caller extends Role | 'anyone'>(
  route: Route<Query, Body, Caller>,
): Route =>
  // The one cast: checkInput() checks what handle() gets.
  route as unknown as Route

/** Throws ApiError. */
export const requireRole = ({ role }: Person, required: Role): void => {
  if (!hasRole(role, required)) throw new ApiError(403, 'role', `this requires the role ${required}; yours is ${role}`)
}

/** No id and no name is longer, and the keys of stores have a limit. */
const maxParamChars = 256

/** The path of a route as the router writes it. */
export const routerPath = ({ path }: Pick<RouteBase<unknown, unknown>, 'path'>): string => path.replaceAll(/\{(\w+)\}/g, ':$1')

/** What a request says, with the defaults. Throws ApiError. */
export const readRequest = ({ query, body }: RouteBase<ObjectSchema, ObjectSchema>, ctx: RouterContext) => ({
  params: checkParams(ctx.params as Readonly<Record<string, string>>),
  query: query && checkInput('query', query, ctx.query),
  body: body && checkInput('body', body, readBody(ctx)),
})

/** Throws ApiError for a body that was not parsed: what it says would be left out without a word. */
const readBody = (ctx: RouterContext): unknown => {
  const { headers } = ctx.req
  const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
  if (hasBody && ctx.is('json', '+json') === false)
    throw new ApiError(415, 'not-json', 'the body must be JSON: send it with the header Content-Type: application/json')
  return ctx.request.body
}

/** The parameters of a path. Throws ApiError where one cannot be an id or a name. */
const checkParams = (params: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  const [tooLong] = Object.entries(params).find(([, value]) => value.length > maxParamChars) ?? []
  if (tooLong !== undefined) throw new ApiError(404, 'not-found', `${tooLong} is longer than ${maxParamChars} characters`)
  return params
}
