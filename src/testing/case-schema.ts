import type { Infer, ObjectSchema } from '../plugin/options-schema.ts'

const upstreamSchema = {
  description:
    'What upstreams respond, by method: `{ result }`, `{ error }`, `{ status, headers, body }`, `down`, `hang`, or a list for one request after the other; `after: 3s` delays a response.',
} as const

const callerProperties = {
  key: { description: 'Name of the API key; the first of `keys` unless given. Another text is sent as it is, and `null` sends no key.' },
  headers: { type: 'object', additionalProperties: { type: 'string' }, description: 'Request headers, in lower case.' },
  origin: { type: 'string', description: 'The Origin header.' },
  ip: { type: 'string', description: 'The address of the caller.' },
} as const

const nameList = { type: 'array', items: { type: 'string' } } as const

/** One step of a case: a message and what it leads to, or a time to wait. */
const stepSchema = {
  type: 'object',
  description: 'A message and what it leads to, or a time to wait.',
  properties: {
    send: { description: 'A method, a request, or a list of requests; `jsonrpc` and `id` are added where they are missing.' },
    params: { description: 'With a method: its params; none unless given.' },
    raw: { type: 'string', description: 'In place of `send`: exactly this text.' },
    ...callerProperties,
    expect: {
      description:
        'Contained in the response: `result`, `error`, `id`, `status`, `outcome`, `source`, `upstream`, `cache`, `credits`, `retryAfter`; of a batch a list. A text between slashes is a pattern.',
    },
    reached: { description: 'What went upstream because of the step: a list of methods, or of `{ upstream, method, params }`.' },
    wait: { type: 'string', format: 'duration', description: 'Lets time pass; before the message, if there is one.' },
  },
} as const satisfies ObjectSchema

const caseSchema = {
  type: 'object',
  description: 'One case, on a network that has just been started.',
  properties: {
    name: { type: 'string', minLength: 1, description: 'The rule that the case is about, as a sentence.' },
    ...callerProperties,
    upstream: upstreamSchema,
    upstreams: { type: 'object', additionalProperties: upstreamSchema, description: 'The same for single upstreams, by name.' },
    steps: { type: 'array', items: stepSchema, minItems: 1, description: 'What happens, one after the other.' },
  },
  required: ['name', 'steps'],
} as const satisfies ObjectSchema

/** The keys of networks/NAME.test.yaml. */
export const caseFileSchema = {
  type: 'object',
  description: 'Cases of a network: messages and what they lead to, on a clock and over upstreams of the test.',
  properties: {
    env: {
      type: 'object',
      additionalProperties: { type: 'string' },
      default: {},
      description: 'The variables of the network file. Those of the environment are not read.',
    },
    plans: {
      type: 'object',
      additionalProperties: {
        type: 'object',
        properties: {
          dailyCredits: { type: 'integer', minimum: 0, description: 'Credits of a day; 1,000,000 unless given.' },
          forwarding: { type: 'boolean', description: 'May eth_getLogs be forwarded to a partner?' },
        },
      },
      description: 'The plans of accounts; those of gateway.yaml unless given.',
    },
    keys: {
      type: 'object',
      additionalProperties: {
        type: 'object',
        properties: {
          account: { type: 'string', description: 'Name of the account; that of the key unless given.' },
          plan: { type: 'string', description: 'Plan of the account; the first plan unless given.' },
          credits: { type: 'integer', minimum: 0, description: 'Credits of a day, in place of the plan’s.' },
          project: { type: 'string', description: 'Project of the key.' },
          networks: { ...nameList, description: 'Networks that the key allows.' },
          methods: { ...nameList, description: 'Methods that the key allows.' },
          origins: { ...nameList, description: 'Origins that the key allows.' },
          verify: {
            type: 'array',
            items: { type: 'string', enum: ['none', 'proof'] },
            description: 'What callers may ask for with the header Tollgate-Verify.',
          },
          revoked: { type: 'boolean', description: 'The key has been revoked.' },
          suspended: { type: 'boolean', description: 'The key is suspended.' },
        },
      },
      description: 'API keys by name; one for each plan, with its name, unless given.',
    },
    cases: { type: 'array', items: caseSchema, minItems: 1, description: 'The cases. Each begins anew.' },
  },
  required: ['cases'],
} as const satisfies ObjectSchema

export type CaseFile = Infer<typeof caseFileSchema>
export type Case = Infer<typeof caseSchema>
export type CaseStep = Infer<typeof stepSchema>
