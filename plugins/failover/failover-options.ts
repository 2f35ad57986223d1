import type { Infer } from '../../src/plugin/plugin.ts'

const nodeSchema = {
  type: 'object',
  omitWhenUnset: true,
  properties: {
    name: {
      type: 'string',
      pattern: '^[!-~]+$',
      label: 'a name of ASCII characters without spaces',
      description: 'Shown in headers, logs and metrics; the URL never is.',
    },
    url: { type: 'string', format: 'url', description: 'Where the node answers JSON-RPC over HTTP.' },
    concurrency: {
      type: 'integer',
      minimum: 1,
      default: 256,
      description: 'Most calls to it at once. As many again wait, for 1 s at most; the rest go to the next node.',
    },
    maxRange: {
      type: 'integer',
      minimum: 1,
      description: 'Most blocks that it takes in one eth_getLogs; a wider query is asked in pieces.',
    },
    maxParams: {
      type: 'integer',
      minimum: 1,
      description: 'Most addresses, and most topics in one position, in one eth_getLogs; more go in pieces.',
    },
  },
  required: ['name', 'url'],
} as const

export const failoverOptions = {
  type: 'object',
  properties: {
    upstreams: {
      type: 'array',
      minItems: 1,
      items: {
        ...nodeSchema,
        properties: {
          ...nodeSchema.properties,
          ws: {
            type: 'string',
            format: 'url',
            omitWhenUnset: true,
            description: 'Where the node tells of new blocks over WebSocket (eth_subscribe), so that it need not be polled.',
          },
          weight: {
            type: 'number',
            minimum: 0,
            description: 'Its share of the calls; 1 where another has a weight. 0: only when no other can answer.',
          },
        },
      },
      description: 'Own nodes, in order of preference; or those that share the calls, where they have weights.',
    },
    partner: {
      ...nodeSchema,
      properties: {
        ...nodeSchema.properties,
        methods: {
          type: 'array',
          items: { type: 'string' },
          default: ['eth_getLogs'],
          description: 'Methods that may be forwarded when no own node can answer.',
        },
        when: {
          type: 'string',
          enum: ['outage', 'header'],
          default: 'outage',
          description: 'outage: no own node can answer. header: the same, and the caller sent Enable-Failover: true.',
        },
      },
      description: 'A partner that answers in an outage, for plans with forwarding: true.',
    },
    maxLag: {
      type: 'integer',
      minimum: 1,
      description: 'Blocks behind the head from which a node comes last; if left out 5, or as many as take 10 s.',
    },
    hedge: {
      type: 'boolean',
      default: false,
      description: 'Ask the next node too when one takes longer than 95 % of its calls did; the first answer counts.',
    },
    breaker: {
      type: 'object',
      properties: {
        minCalls: {
          type: 'integer',
          minimum: 1,
          default: 20,
          description: 'Minimum number of calls in the window before the breaker may open.',
        },
        errorPercent: {
          type: 'integer',
          minimum: 1,
          maximum: 100,
          default: 50,
          description: 'Percentage of failed calls at which the breaker opens.',
        },
        window: {
          type: 'string',
          format: 'duration',
          default: '10s',
          description: 'How far back calls are counted for `minCalls` and `errorPercent`.',
        },
        consecutiveFailures: {
          type: 'integer',
          minimum: 1,
          default: 5,
          description: 'Number of consecutive failures that open the breaker, however few calls there are.',
        },
        openFor: {
          type: 'string',
          format: 'duration',
          default: '5s',
          description: 'How long the breaker stays open before the node is probed with eth_blockNumber.',
        },
      },
      default: {},
      description: 'When an upstream is left alone for a while; one breaker per upstream and class of method.',
    },
  },
  required: ['upstreams'],
} as const

export type FailoverOptions = Infer<typeof failoverOptions>
