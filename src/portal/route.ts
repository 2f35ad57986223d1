import type { RouterContext } from '@koa/router'
import { Ajv } from 'ajv'
import type { ErrorObject, ValidateFunction } from 'ajv'
import { describeSchema } from '../config/describe-options.ts'
import { schemaAt, toJsonSchema } from '../config/schema.ts'
import type { JsonSchema } from '../config/schema.ts'
import type { Infer, ObjectSchema } from '../plugin/options-schema.ts'
import { getOrCreate } from '../util/memoize.ts'
import { parseJsonPointer } from '../util/json-path.ts'
import { ApiError } from './api-errors.ts'
import { hasRole } from './people.ts'
import type { Person, Role } from './people.ts'
import type { PortalServices } from './portal-services.ts'

/** What the API's description says of a route. */
export interface RouteBase<Query, Body> {
  readonly method: 'get' | 'post' | 'patch' | 'delete'
  /** Below /api/v1; parameters as `{id}`. */
  readonly path: string
  readonly summary: string
  readonly query?: Query
  readonly body?: Body
  /** What a success returns; undefined: nothing, status 204. */
  readonly response?: JsonSchema
  /** Of a success: 200 unless given. */
  readonly status?: number
}

export interface RouteRequest<Query = unknown, Body = unknown> {
  /** Who asks: everything is about their account. */
  readonly person: Person
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
export interface Route<Query extends ObjectSchema = ObjectSchema, Body extends ObjectSchema = ObjectSchema> extends RouteBase<Query, Body> {
  /** The least role that may do it. */
  readonly role: Role
  /** Takes something away, as routes of the method `delete` do: `limits.removals` bounds it in place of `limits.changes`. */
  readonly isRemoval?: true
  handle(request: RouteRequest<Infer<Query>, Infer<Body>>, services: PortalServices): unknown
}

/** An action before anybody has signed in. */
export interface PublicRoute<Body extends ObjectSchema = ObjectSchema> extends RouteBase<ObjectSchema, Body> {
  readonly role: 'anyone'
  handle(request: Omit<RouteRequest<unknown, Infer<Body>>, 'person'>, services: PortalServices): unknown
}

export type AnyRoute = Route | PublicRoute

/** Ties the types of query and body to their schemas. */
export const defineRoute = <const Query extends ObjectSchema, const Body extends ObjectSchema>(route: Route<Query, Body>): Route =>
  // The one cast, here and below: checkInput() checks what handle() gets.
  route as unknown as Route

export const definePublicRoute = <const Body extends ObjectSchema>(route: PublicRoute<Body>): PublicRoute => route as unknown as PublicRoute

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
  query: query && checkInput('query', query, { ...ctx.query }),
  body: body && checkInput('body', body, readBody(ctx)),
})

/** Throws ApiError for a body that was not parsed: what it says would be left out without a word. */
const readBody = (ctx: RouterContext): unknown => {
  if ((ctx.request.length ?? 0) > 0 && ctx.is('json', '+json') === false)
    throw new ApiError(415, 'not-json', 'the body must be JSON: send it with the header Content-Type: application/json')
  return ctx.request.body
}

/** The parameters of a path. Throws ApiError where one cannot be an id or a name. */
const checkParams = (params: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  const [tooLong] = Object.entries(params).find(([, value]) => value.length > maxParamChars) ?? []
  if (tooLong !== undefined) throw new ApiError(404, 'not-found', `${tooLong} is longer than ${maxParamChars} characters`)
  return params
}

const ajvOptions = { strict: true, allErrors: false, useDefaults: true, meta: false, validateSchema: false } as const

const bodyAjv = new Ajv(ajvOptions)
/** Members of a query are texts. */
const queryAjv = new Ajv({ ...ajvOptions, coerceTypes: true })

const bodyValidators = new WeakMap<ObjectSchema, ValidateFunction>()
const queryValidators = new WeakMap<ObjectSchema, ValidateFunction>()

/**
 * Checks a body or a query, and adds the defaults to it. Throws ApiError with the field and what it must be. Nothing recurses into what is not
 * known: a caller may nest a body as deep as its length allows.
 */
export const checkInput = (kind: 'body' | 'query', schema: ObjectSchema, value: unknown): unknown => {
  const [ajv, validators] = kind === 'body' ? [bodyAjv, bodyValidators] : [queryAjv, queryValidators]
  const validate = getOrCreate(validators, schema, () => ajv.compile(toJsonSchema(schema)))
  const checked = value ?? {}
  if (validate(checked)) return checked
  throw toApiError(validate.errors?.[0], schema, kind)
}

const toApiError = (error: ErrorObject | undefined, schema: ObjectSchema, kind: string): ApiError => {
  const path = parseJsonPointer(error?.instancePath ?? '')
  const member = error?.params['missingProperty'] ?? error?.params['additionalProperty']
  const field = [...path, ...(member === undefined ? [] : [String(member)])].join('.')
  if (error?.keyword === 'required') return new ApiError(400, 'invalid', `${field} is missing`, field)
  if (error?.keyword === 'additionalProperties') return new ApiError(400, 'invalid', `${field} is not known here`, field)
  const found = schemaAt(schema, path)
  const expected = found === undefined ? 'valid' : describeSchema(found)
  return new ApiError(400, 'invalid', `${field === '' ? `the ${kind}` : field} must be ${expected}`, field || undefined)
}
