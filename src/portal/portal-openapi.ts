import type { JsonSchema } from '../config/schema.ts'
import { openApiDocument } from './openapi.ts'
import type { PortalServices } from './portal-services.ts'
import { responseSchemas } from './response-schemas.ts'
import type { AnyRoute } from './route.ts'
import { isHttps, sessionCookieName } from './sessions.ts'

export const portalCookieName = 'tollgate'

/** The API of the portal as an OpenAPI document. */
export const portalOpenApi = (routes: readonly AnyRoute[], { url, version }: Pick<PortalServices, 'url' | 'version'>): JsonSchema =>
  openApiDocument(routes.map(describeAccess), {
    title: 'Tollgate portal',
    version,
    url,
    description: 'Keys, credits and usage of one account. Send a personal access token as `Authorization: Bearer TOKEN`.',
    tokenDescription: 'A personal access token.',
    cookieName: sessionCookieName(portalCookieName, isHttps(url)),
    schemas: responseSchemas,
    paths: { '/events': { get: eventsOperation } },
  })

const describeAccess = (route: AnyRoute) => ({
  ...route,
  description: route.role === 'anyone' ? 'For anyone.' : `Needs the role ${route.role}.`,
  isPublic: route.role === 'anyone',
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
