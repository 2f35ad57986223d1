import { toJsonSchema } from '../config/schema.ts'
import type { JsonSchema } from '../config/schema.ts'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { operationIdOf } from './openapi-names.ts'
import { schemaRef } from './response-schemas.ts'
import type { RouteBase } from './route.ts'

/** A route, with who may use it. */
interface DescribedRoute extends RouteBase<ObjectSchema, ObjectSchema> {
  readonly description?: string
  /** For anyone, without a token or a session. */
  readonly isPublic?: boolean
}

interface ApiDescription {
  readonly title: string
  readonly description: string
  readonly version: string
  /** Of the listener; empty where the document is read from it. */
  readonly url: string
  readonly tokenDescription: string
  /** Of sessions. */
  readonly cookieName: string
  /** By their names in the document; `Error` is one of them. */
  readonly schemas: Readonly<Record<string, JsonSchema>>
  /** Operations that are no routes. */
  readonly paths?: Readonly<Record<string, Readonly<Record<string, JsonSchema>>>>
}

/** An API as an OpenAPI 3.1 document, made from the routes themselves. */
export const openApiDocument = (routes: readonly DescribedRoute[], api: ApiDescription): JsonSchema => {
  const { title, description, version, url, tokenDescription, cookieName, schemas } = api
  const paths: Record<string, Record<string, JsonSchema>> = { ...api.paths }
  for (const route of routes) paths[route.path] = { ...paths[route.path], [route.method]: toOperation(route) }
  return {
    openapi: '3.1.0',
    info: { title, version, description },
    servers: [{ url: `${url}/api/v1` }],
    security: [{ token: [] }, { session: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: tokenDescription },
        session: { type: 'apiKey', in: 'cookie', name: cookieName },
      },
      responses: Object.fromEntries(
        Object.entries(errorResponses).map(([name, [, text]]) => [
          name,
          { description: text, content: { 'application/json': { schema: schemaRef('Error') } } },
        ]),
      ),
      schemas,
    },
  }
}

const toOperation = (route: DescribedRoute): JsonSchema => {
  const { path, summary, description, isPublic = false, query, body, response, status } = route
  return {
    operationId: operationIdOf(route),
    summary,
    ...(description !== undefined && { description }),
    ...(isPublic && { security: [] }),
    ...((query !== undefined || path.includes('{')) && { parameters: [...pathParameters(path), ...queryParameters(query)] }),
    ...(body !== undefined && { requestBody: { required: true, content: { 'application/json': { schema: toJsonSchema(body) } } } }),
    responses: {
      [String(status ?? (response === undefined ? 204 : 200))]: {
        description: 'Success.',
        ...(response !== undefined && { content: { 'application/json': { schema: response } } }),
      },
      ...Object.fromEntries(errorsOf(route).map(name => [String(errorResponses[name][0]), { $ref: `#/components/responses/${name}` }])),
    },
  }
}

const pathParameters = (path: string): readonly JsonSchema[] =>
  Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => ({ name, in: 'path', required: true, schema: { type: 'string' } }))

const queryParameters = (query: ObjectSchema | undefined): readonly JsonSchema[] =>
  Object.entries(query?.properties ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    description: schema.description,
    schema: toJsonSchema(schema),
  }))

/** Statuses of errors, by the names of their responses in the document. */
export const errorResponses = {
  BadRequest: [400, 'A member of the request is wrong, as `field` says, or the body is no JSON.'],
  Unauthorized: [401, 'Nobody is signed in, or the token, the session or the link has ended.'],
  Forbidden: [403, 'The role does not suffice, the token is read-only, or the request comes from a page of another site.'],
  NotFound: [404, 'There is nothing of this id.'],
  Conflict: [409, 'What is there already forbids the change.'],
  ContentTooLarge: [413, 'The body is too large.'],
  UnsupportedMediaType: [415, 'The body is not sent as JSON.'],
  TooManyRequests: [429, 'Too many attempts or changes: see `Retry-After`.'],
  InternalError: [500, 'A bug of the gateway; the log has `X-Request-Id`.'],
  ServiceUnavailable: [503, 'The store, or the provider, is unreachable.'],
} as const

type ErrorName = keyof typeof errorResponses

/** What may go wrong with requests of the route. */
const errorsOf = ({ method, path, query, body, isPublic = false }: DescribedRoute): readonly ErrorName[] => {
  const isChange = method !== 'get'
  const applies: Readonly<Record<ErrorName, boolean>> = {
    BadRequest: query !== undefined || body !== undefined,
    Unauthorized: !isPublic || isChange,
    Forbidden: !isPublic || isChange,
    NotFound: path.includes('{') || (isPublic && isChange),
    Conflict: isChange,
    ContentTooLarge: body !== undefined,
    UnsupportedMediaType: body !== undefined,
    TooManyRequests: !isPublic || isChange,
    InternalError: true,
    ServiceUnavailable: true,
  }
  return (Object.keys(errorResponses) as ErrorName[]).filter(name => applies[name]) // of a literal
}
