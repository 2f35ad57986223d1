import { toJsonSchema } from '../config/schema.ts'
import type { JsonSchema } from '../config/schema.ts'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { maxNameChars } from '../services/accounts/account-fields.ts'
import { changeAuthors } from '../services/accounts/change-history.ts'
import { unprintable } from '../util/printable-text.ts'
import { errorResponses, errorsOf, operationIdOf } from './openapi-names.ts'
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

// What the schemas of responses are made of.

export const text = { type: 'string' }
export const time = { type: 'string', format: 'date-time' }
export const textOrNull = { type: ['string', 'null'] }
export const timeOrNull = { type: ['string', 'null'], format: 'date-time' }
export const count = { type: 'integer', minimum: 0 }
export const countOrNull = { type: ['integer', 'null'], minimum: 0 }
export const number = { type: 'number', minimum: 0 }
export const numberOrNull = { type: ['number', 'null'], minimum: 0 }
export const flag = { type: 'boolean' }
export const failedByGateway = { ...count, description: 'Of `failed`: by the fault of nodes or of the gateway.' }
export const listOf = (items: JsonSchema) => ({ type: 'array', items })

/** An object that has all these members and no others. */
export const object = (properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
})

/** An object that may lack the members that are not required. */
export const partialObject = (properties: Readonly<Record<string, JsonSchema>>, required: readonly string[]): JsonSchema => ({
  ...object(properties),
  required,
})

/** Who has made a change. */
export const authorSchema = object({ kind: { type: 'string', enum: changeAuthors }, name: text })

export const accountRefSchema = object({ id: text, name: text })

const milliseconds = { ...numberOrNull, description: 'Of successful calls, in ms; null without any.' }

export const latencyProperties = { p50Ms: milliseconds, p95Ms: milliseconds, p99Ms: milliseconds } as const

/** A schema of the document, by its name there. */
export const schemaRef = (name: string): JsonSchema => ({ $ref: `#/components/schemas/${name}` })

export const errorSchema = object({
  error: {
    type: 'object',
    properties: { code: text, message: text, field: { type: 'string', description: 'The member of the request that is wrong.' } },
    required: ['code', 'message'],
    additionalProperties: false,
  },
})

/** One day of an account. */
export const balanceProperties = {
  day: { type: 'string', format: 'date' },
  limit: { ...countOrNull, description: 'Credits of the day; null where gateway.yaml does not have the plan of the account.' },
  used: { ...count, description: 'Credits that counted calls have cost.' },
  held: { ...count, description: 'Credits that gateways have leased, and not used yet.' },
  forfeited: { ...count, description: 'Credits that gateways had leased when they died.' },
  left: { ...countOrNull, description: 'Credits that are neither used, held nor forfeited; null without a limit.' },
  resetAt: time,
} as const

export const balanceSchema = object(balanceProperties)
