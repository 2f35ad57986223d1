import { toJsonSchema } from '../config/schema.ts'
import type { JsonSchema } from '../config/schema.ts'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { responseSchemas } from './response-schemas.ts'
import type { AnyRoute } from './route.ts'

/** The API as an OpenAPI 3.1 document, made from the routes themselves. */
export const openApiDocument = (
  routes: readonly AnyRoute[],
  { url, version }: { readonly url: string; readonly version: string },
): JsonSchema => {
  const paths: Record<string, Record<string, JsonSchema>> = {}
  paths['/events'] = { get: eventsOperation }
  for (const route of routes) paths[route.path] = { ...paths[route.path], [route.method]: toOperation(route) }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Tollgate portal',
      version,
      description: 'Keys, credits and usage of one account. Send a personal access token as `Authorization: Bearer TOKEN`.',
    },
    servers: [{ url: `${url}/api/v1` }],
    security: [{ token: [] }, { session: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'A personal access token.' },
        session: { type: 'apiKey', in: 'cookie', name: url.startsWith('https:') ? '__Host-tollgate' : 'tollgate' },
      },
      schemas: responseSchemas,
    },
  }
}

const toOperation = ({ method, path, summary, role, query, body, response, status }: AnyRoute): JsonSchema => ({
  operationId: operationId(method, path),
  summary,
  description: role === 'anyone' ? 'For anyone.' : `Needs the role ${role}.`,
  ...(role === 'anyone' && { security: [] }),
  ...((query !== undefined || path.includes('{')) && { parameters: [...pathParameters(path), ...queryParameters(query)] }),
  ...(body !== undefined && { requestBody: { required: true, content: { 'application/json': { schema: toJsonSchema(body) } } } }),
  responses: {
    [String(status ?? (response === undefined ? 204 : 200))]: {
      description: 'Success.',
      ...(response !== undefined && { content: { 'application/json': { schema: response } } }),
    },
    default: {
      description: 'An error: 400, 401, 403, 404, 409, 429, 503.',
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
    },
  },
})

const eventsOperation: JsonSchema = {
  operationId: 'getEvents',
  summary: 'Server-sent events: `account` with what GET /account returns, now and each time that it has changed.',
  description: 'Needs the role viewer.',
  responses: {
    '200': {
      description: 'A stream that ends with the session or the token.',
      content: { 'text/event-stream': { schema: { type: 'string' } } },
    },
  },
}

/** `post /keys/{id}/revoke` is `postKeysIdRevoke`. */
const operationId = (method: string, path: string): string =>
  method + path.replaceAll(/[/{}]+(\w?)/g, (_, letter: string) => letter.toUpperCase())

const pathParameters = (path: string): readonly JsonSchema[] =>
  Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => ({ name, in: 'path', required: true, schema: { type: 'string' } }))

const queryParameters = (query: ObjectSchema | undefined): readonly JsonSchema[] =>
  Object.entries(query?.properties ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    description: schema.description,
    schema: toJsonSchema(schema),
  }))
