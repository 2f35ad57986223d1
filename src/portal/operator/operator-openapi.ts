import type { JsonSchema } from '../../config/schema.ts'
import { openApiDocument } from '../openapi.ts'
import { count, errorSchema, flag, listOf, number, object, partialObject, text, textOrNull } from '../response-schemas.ts'
import { operationSchemas } from '../operations/index.ts'
import { isHttps, sessionCookieName } from '../people/sessions.ts'
import { configurationSchemas } from './configuration-routes.ts'
import { operatorCookieName } from './operator-login.ts'
import type { OperatorRoute } from './operator-route.ts'
import { overviewSchemas } from './overview-routes.ts'
import { problemSchemas } from './problems.ts'

interface DescribedApi {
  /** The URL that browsers use; undefined where it is that of the admin listener. */
  readonly url?: string | undefined
  /** The admin listener has TLS itself. */
  readonly isTls?: boolean
  readonly version: string
}

/** The operator's API as an OpenAPI document. */
export const operatorOpenApi = (routes: readonly OperatorRoute[], { url = '', isTls = false, version }: DescribedApi): JsonSchema =>
  openApiDocument(routes, {
    title: 'Tollgate operator',
    version,
    url: url.replace(/\/$/, ''),
    description:
      'Accounts, keys, usage, nodes and the log of changes. Send `admin.token` of gateway.yaml, or one of `admin.tokens`, as `Authorization: Bearer TOKEN`, or open a ' +
      'session: POST /login, beside /api/v1, with `{"token": "TOKEN"}`.',
    tokenDescription: '`admin.token` of gateway.yaml, or one of `admin.tokens`.',
    cookieName: sessionCookieName(operatorCookieName, isTls || isHttps(url)),
    schemas: responseSchemas,
  })

/** What the operator's routes return, by the name in the OpenAPI document. A test holds every response against its schema. */
const responseSchemas = {
  Error: errorSchema,
  Session: object({
    by: { type: 'string', enum: ['token', 'session'] },
    name: { ...textOrNull, description: 'Of the operator, as `admin.tokens` of gateway.yaml has it; null with `admin.token`.' },
    version: text,
    host: { ...text, description: 'The name of the machine, container or pod of this gateway.' },
    dashboard: { type: ['string', 'null'], description: 'The URL of the dashboard for developers.' },
    changeActions: { ...listOf(text), description: 'All kinds of entries of the log of changes.' },
  }),
  ...operationSchemas,
  Plan: partialObject(
    { name: text, dailyCredits: count, forwarding: flag, rate: number, burst: number, offered: flag, price: text, url: text },
    ['name', 'dailyCredits', 'forwarding'],
  ),
  ...overviewSchemas,
  ...problemSchemas,
  ...configurationSchemas,
} as const satisfies Readonly<Record<string, JsonSchema>>
