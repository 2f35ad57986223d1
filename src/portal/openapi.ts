import { toJsonSchema } from '../config/schema.ts'
import type { JsonSchema } from '../config/schema.ts'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { maxNameChars } from '../services/accounts/account-fields.ts'
import { unprintable } from '../util/printable-text.ts'
import { errorResponses, errorsOf, operationIdOf } from './openapi-names.ts'
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

/** A zero-width joiner stands between the parts of an emoji; a name of nothing else could not be seen, nor clicked. U+2800 is a blank. */
const hasVisible = '(?=.*[^\\p{Default_Ignorable_Code_Point}\\p{Z}\\u2800])'

/** What people call something: the schema of a member of a body. */
export const givenName = (description: string) =>
  ({
    type: 'string',
    pattern: `^${hasVisible}[^\\s${unprintable}]([^${unprintable}]{0,${maxNameChars - 2}}[^\\s${unprintable}])?$`,
    label: `1 to ${maxNameChars} printable characters, not all of them invisible, without spaces at the ends`,
    description,
  }) as const
