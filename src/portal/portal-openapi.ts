import type { JsonSchema } from '../config/schema.ts'
import { errorResponses, openApiDocument } from './openapi.ts'
import {
  accountRefSchema,
  balanceSchema,
  count,
  countOrNull,
  failedByGateway,
  errorSchema,
  flag,
  latencyProperties,
  listOf,
  number,
  numberOrNull,
  object,
  text,
  textOrNull,
  time,
  timeOrNull,
  partialObject,
  schemaRef,
} from './response-schemas.ts'
import { lastHeadSchema, networkStateSchema } from './network-schemas.ts'
import { personSchema } from './people/person-json.ts'
import { accountStates } from '../services/accounts/account-state.ts'
import { changeSchemas } from './operations/change-operations.ts'
import { listedSessionSchema } from './routes/sessions.ts'
import { emailConfirmationSchema } from './routes/email-confirmations.ts'
import { identitySchema } from './routes/oidc.ts'
import { requestSchemas } from './routes/requests.ts'
import type { PortalServices } from './portal-services.ts'
import type { Route } from './route.ts'
import { signInChoiceSchema } from './people/proven-addresses.ts'
import { isHttps, sessionCookieName } from './people/sessions.ts'
import { alertsShape, webhookTestSchema } from './alerts/manage-alerts.ts'
import { degradedBecause } from './alerts/network-incidents.ts'
import { keyProperties } from './key-settings.ts'
import { keyUseProperties } from './key-use.ts'

export const portalCookieName = 'tollgate'

/** The API of the portal as an OpenAPI document. */
export const portalOpenApi = (routes: readonly Route[], { url, version }: Pick<PortalServices, 'url' | 'version'>): JsonSchema =>
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

const describeAccess = (route: Route) => ({
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
    ...Object.fromEntries(
      (['Unauthorized', 'TooManyRequests', 'ServiceUnavailable'] as const).map(name => [
        String(errorResponses[name][0]),
        { $ref: `#/components/responses/${name}` },
      ]),
    ),
  },
}

const key = { ...keyProperties, ...keyUseProperties }

const outageDay = object({ date: text, downSeconds: count, stalledSeconds: count })

const networkStatus = {
  name: text,
  chainId: count,
  head: countOrNull,
  finalized: countOrNull,
  lagBlocks: countOrNull,
  nodes: count,
  usableNodes: count,
  state: networkStateSchema,
  lastHead: lastHeadSchema,
  incidents: {
    ...listOf(
      object({
        state: networkStateSchema,
        because: {
          type: ['string', 'null'],
          enum: [...degradedBecause, null],
          description:
            'Why `degraded`: `nodes`: some got no calls, or none of some methods. `slow`: some took far longer than others. Null for other states.',
        },
        began: time,
        ended: { ...timeOrNull, description: 'Null while it lasts.' },
      }),
    ),
    description:
      'When calls failed, or there was no new block, in the last 24 hours; and when the network was `degraded`, as far as this gateway has run. The newest first, of both 10 at most.',
  },
  outageDays: {
    ...listOf(outageDay),
    type: ['array', 'null'],
    description:
      'Days (UTC) of the last 90 with outages that gateways on the store have seen, in order; null while the store cannot be read.',
  },
  outagesSince: { type: ['string', 'null'], description: 'The first day (UTC) whose outages are recorded; null before there is one.' },
  unobservedDays: {
    ...listOf(object({ from: text, to: text })),
    description:
      'Days (UTC) since then, of the last 90, on which no gateway has observed the network, as it had no calls: each gap from its first to its last day.',
  },
  observedSince: { ...timeOrNull, description: 'When a gateway first knew how the network was, in the last 90 days; null where none did.' },
  observedSeconds: {
    oneOf: [object({ last24Hours: count, last90Days: count }), { type: 'null' }],
    description:
      'How long gateways on the store have known how the network was, in steps of 5 minutes: `last90Days` is since 00:00 UTC of the first of the days. Shares of time without an outage are of that. Null while the store cannot be read.',
  },
} as const

const rateLimits = {
  oneOf: [
    object({
      accountRate: numberOrNull,
      accountBurst: countOrNull,
      accountCreditRate: numberOrNull,
      keyRate: numberOrNull,
      ipRate: numberOrNull,
    }),
    { type: 'null' },
  ],
  description:
    'Calls and credits per second that the network allows an account, a key and an IP address; `burst`: calls at once. The rate of the plan takes the place of `accountRate`. Null: the network limits no rates, not even those of plans and keys.',
} as const

const accessToken = { id: text, name: text, hint: text, created: time, expires: timeOrNull, readOnly: flag, lastUsed: timeOrNull }

const latencies = { ...listOf(numberOrNull), description: 'Of a group, empty unless asked for.' }
const points = object({
  calls: listOf(count),
  failed: listOf(count),
  credits: listOf(count),
  p50Ms: latencies,
  p95Ms: latencies,
  p99Ms: latencies,
})
const statistics = {
  name: text,
  calls: count,
  failed: count,
  byGateway: failedByGateway,
  credits: count,
  forwarded: count,
  ...latencyProperties,
}
const parts = { ...listOf(object(statistics)), description: 'By the dimension `and`; empty without one.' }
const series = object({ ...statistics, points, parts })

const refusal = object({ status: { ...count, description: 'Of HTTP.' }, code: { type: 'integer', description: 'Of JSON-RPC.' } })

const planSchema = object({
  name: text,
  dailyCredits: countOrNull,
  forwarding: flag,
  rate: { ...numberOrNull, description: 'Calls per second, on networks that limit rates.' },
  burst: { ...countOrNull, description: 'Calls that may come at once.' },
  price: { ...textOrNull, description: 'As the operator words it.' },
  url: { ...textOrNull, description: 'Where the account gets the plan, such as a page of payment.' },
})

/** What the routes return, by the name in the OpenAPI document. A test holds every response against its schema. */
const responseSchemas = {
  Error: errorSchema,
  ListedSession: listedSessionSchema,
  ...changeSchemas,
  Session: object({ person: personSchema, account: accountRefSchema }),
  SignInChoice: signInChoiceSchema,
  Person: personSchema,
  EmailConfirmation: emailConfirmationSchema,
  Account: object({
    account: accountRefSchema,
    plan: { ...planSchema, description: 'With the credits of the account’s own, if it has such.' },
    hasOwnCredits: { ...flag, description: 'Whether the operator has set the credits of this account, in place of those of the plan.' },
    offeredPlans: { ...listOf(planSchema), description: 'Those that the operator offers in place of this one.' },
    billingUrl: { ...textOrNull, description: 'Where the account sees and pays its invoices.' },
    balance: balanceSchema,
    state: { type: 'string', enum: accountStates, description: 'Calls are refused unless it is active.' },
    suspended: { ...timeOrNull, description: 'Since when calls are refused.' },
    suspensionReason: { ...textOrNull, description: 'Why, as the operator says.' },
    deleteAt: { ...timeOrNull, description: 'When the account is removed, unless that is undone before.' },
    hours: {
      ...listOf(object({ start: time, calls: count, failed: count, credits: count })),
      description: 'The last 24 hours, in order; the last one is not over yet.',
    },
    creditsPerHour: { ...count, description: 'About the credits of the last 60 minutes.' },
    runsOutAt: {
      ...timeOrNull,
      description: 'When the credits of the day will be used up at this rate; null when they last until the reset.',
    },
    refusals: {
      ...object({ key: refusal, spent: refusal, unavailable: refusal }),
      description:
        'How calls are answered that the gateway refuses: `key` unless the account is active, `spent` without credits, `unavailable` in an outage.',
    },
    now: { ...time, description: 'The time of the gateway.' },
  }),
  Usage: object({
    by: { type: 'string', enum: ['method', 'network', 'key', 'outcome'] },
    step: { type: 'string', enum: ['fiveMinutes', 'hour', 'day'] },
    times: listOf(time),
    end: time,
    keptFrom: { ...time, description: 'The first day whose calls are all counted still.' },
    groups: listOf(series),
    total: series,
    methods: { ...listOf(text), description: 'Of all calls of the range, whatever the filters are.' },
    networks: listOf(text),
    keys: { ...listOf(text), description: 'Ids.' },
  }),
  ...requestSchemas,
  AccountErrors: object({
    calls: { ...count, description: 'All calls that the filters include, with any outcome.' },
    errors: listOf(schemaRef('ErrorCount')),
    methods: { ...listOf(text), description: 'Of all failed calls of the range, the most frequent first.' },
    networks: listOf(text),
    keys: { ...listOf(text), description: 'Ids.' },
  }),
  ErrorCount: object({
    outcome: text,
    calls: count,
    code: { type: ['integer', 'null'] },
    message: text,
    advice: text,
    methods: { ...listOf(object({ method: text, calls: count })), description: 'Of all calls, the most frequent first.' },
    messages: {
      ...listOf(
        object({
          message: text,
          method: text,
          requests: count,
          networks: listOf(object({ name: text, requests: count })),
          keys: { ...listOf(object({ name: text, requests: count })), description: 'By their ids.' },
          lastSeen: time,
        }),
      ),
      description: 'The most frequent of the logged requests, by method; none where messages are not stored.',
    },
    messageCount: { ...count, description: 'How many such messages there are.' },
    loggedRequests: { ...count, description: 'How many logged requests have them.' },
  }),
  Alerts: object(alertsShape),
  NewWebhook: object({ url: text, secret: { type: 'string', description: 'Checks the signatures of messages. It is not shown again.' } }),
  WebhookTest: webhookTestSchema,
  Key: object(key),
  NewKey: object({ ...key, key: { type: 'string', description: 'The API key. It is not shown again.' } }),
  Network: object({ ...networkStatus, http: text, ws: text, rateLimits }),
  NetworkStatus: object(networkStatus),
  Method: partialObject(
    {
      name: text,
      credits: count,
      verification: { type: 'string', description: 'How results are verified: `check`, `proof`, or a quorum such as `2 of 3`.' },
      verifyCredits: {
        ...object({ none: count, proof: count }),
        description: 'Credits of a call with the header `Tollgate-Verify`, by its value; absent where they are the same.',
      },
      eventCredits: {
        type: 'object',
        additionalProperties: count,
        description: 'Of eth_subscribe: credits for each KiB of messages, by the kind of the subscription.',
      },
      limits: {
        ...partialObject({ results: count, blocks: countOrNull, ms: number }, []),
        description:
          'Above one of these a call fails; its answer is never cut off. `blocks` is null for a query of blocks that the gateway does not limit, though its nodes may.',
      },
      forwarded: {
        type: 'string',
        enum: ['outage', 'header'],
        description: 'In an outage a partner may answer, for plans with forwarding; `header`: only calls with `Enable-Failover: true`.',
      },
      params: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            title: text,
            optional: flag,
            accepts: text,
            default: {},
            example: {},
            members: listOf(object({ title: text, accepts: text, example: {} })),
          },
          required: ['title', 'optional', 'accepts', 'example'],
          additionalProperties: false,
        },
      },
    },
    ['name', 'credits', 'params'],
  ),
  AccessToken: object(accessToken),
  Identity: identitySchema,
  NewAccessToken: object({ ...accessToken, token: { type: 'string', description: 'The token. It is not shown again.' } }),
} as const satisfies Readonly<Record<string, JsonSchema>>
