import type { JsonSchema } from '../config/schema.ts'

const text = { type: 'string' }
const time = { type: 'string', format: 'date-time' }
const textOrNull = { type: ['string', 'null'] }
const timeOrNull = { type: ['string', 'null'], format: 'date-time' }
const count = { type: 'integer', minimum: 0 }
const countOrNull = { type: ['integer', 'null'], minimum: 0 }
const texts = { type: 'array', items: text }
const flag = { type: 'boolean' }

/** An object that has all these members and no others. */
const object = (properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
})

const role = { type: 'string', enum: ['viewer', 'developer', 'owner'] }
const person = object({ id: text, name: text, role, email: textOrNull })

const key = {
  id: text,
  name: text,
  hint: text,
  networks: texts,
  methods: texts,
  origins: texts,
  ips: texts,
  dailyCredits: countOrNull,
  usedToday: countOrNull,
  state: { type: 'string', enum: ['active', 'suspended', 'expired', 'revoked'] },
  created: time,
  expires: timeOrNull,
  suspended: timeOrNull,
  revoked: timeOrNull,
  lastUsed: timeOrNull,
}

const accessToken = { id: text, name: text, hint: text, created: time, expires: timeOrNull }

const series = object({ name: text, calls: count, credits: count, forwarded: count, points: { type: 'array', items: count } })

/** What the routes return, by the name in the OpenAPI document. A test holds every response against its schema. */
export const responseSchemas = {
  Error: object({
    error: {
      type: 'object',
      properties: { code: text, message: text, field: { type: 'string', description: 'The member of the request that is wrong.' } },
      required: ['code', 'message'],
      additionalProperties: false,
    },
  }),
  Session: object({ person, account: object({ id: text, name: text }) }),
  Person: person,
  Account: object({
    account: object({ id: text, name: text }),
    plan: object({ name: text, dailyCredits: countOrNull, forwarding: flag }),
    balance: object({
      day: { type: 'string', format: 'date' },
      limit: countOrNull,
      used: count,
      held: count,
      forfeited: count,
      left: countOrNull,
      resetAt: time,
    }),
    suspended: timeOrNull,
    hours: { type: 'array', items: object({ start: time, calls: count, credits: count }) },
    creditsPerHour: count,
    runsOutAt: timeOrNull,
    now: time,
  }),
  Usage: object({
    by: { type: 'string', enum: ['method', 'network', 'key', 'outcome'] },
    step: { type: 'string', enum: ['hour', 'day'] },
    times: { type: 'array', items: time },
    groups: { type: 'array', items: series },
    total: series,
  }),
  ErrorCount: object({ outcome: text, calls: count, code: { type: ['integer', 'null'] }, message: text, advice: text }),
  Key: object(key),
  NewKey: object({ ...key, key: { type: 'string', description: 'The API key. It is not shown again.' } }),
  Network: object({
    name: text,
    chainId: count,
    http: text,
    ws: text,
    head: countOrNull,
    finalized: countOrNull,
    nodes: count,
    usableNodes: count,
  }),
  Method: object({
    name: text,
    credits: count,
    params: {
      type: 'array',
      items: {
        type: 'object',
        properties: { title: text, optional: flag, accepts: text, default: {} },
        required: ['title', 'optional', 'accepts'],
        additionalProperties: false,
      },
    },
  }),
  AccessToken: object(accessToken),
  NewAccessToken: object({ ...accessToken, token: { type: 'string', description: 'The token. It is not shown again.' } }),
} as const satisfies Readonly<Record<string, JsonSchema>>
