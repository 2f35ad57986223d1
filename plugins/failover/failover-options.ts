import type { Infer, ReportProblem, Secret } from '../../src/plugin/plugin.ts'
import type { Path } from '../../src/plugin/internal.ts'

const nodeSchema = {
  type: 'object',
  omitWhenUnset: true,
  properties: {
    name: {
      type: 'string',
      pattern: '^[!-~]+$',
      label: 'a name of ASCII characters without spaces',
      description: 'Name in headers, logs and metrics, which never show the URL.',
      examples: ['node-1'],
    },
    url: {
      type: 'string',
      format: 'url',
      pattern: '^([hH][tT][tT][pP]|[wW][sS])[sS]?://',
      label: 'a URL that begins with http://, https://, ws:// or wss://',
      description: 'URL of the JSON-RPC endpoint: HTTP, or WebSocket, over which new blocks come too.',
      examples: ['https://node.example.com/v1/${NODE_KEY}'],
    },
    concurrency: {
      type: 'integer',
      minimum: 1,
      default: 256,
      description: 'Maximum number of concurrent calls. As many again wait, for 1 s at most; further calls go to the next node.',
    },
    rate: {
      type: 'string',
      format: 'rate',
      description:
        'Maximum number of requests to the node in a time, for calls: per second (s), minute (m) or hour (h). When they are spent, calls go to the next node.',
      examples: ['100/s', '6000/m'],
    },
    headers: {
      type: 'object',
      additionalProperties: { type: 'string', format: 'secret' },
      description: 'HTTP headers of each request to this node, and of the upgrade to a WebSocket. Values are secrets.',
      examples: [{ 'X-Api-Key': '${NODE_KEY}' }],
    },
    compression: {
      type: 'boolean',
      default: false,
      description: 'Request responses with gzip, for a node behind a slow or metered line; that costs CPU.',
    },
    maxRange: {
      type: 'integer',
      minimum: 1,
      description: 'Maximum number of blocks in one eth_getLogs of this node; a wider query is split into chunks.',
      examples: [10_000],
    },
    maxParams: {
      type: 'integer',
      minimum: 1,
      description: 'Maximum number of addresses, and of topics in one position, in one eth_getLogs; a query with more is split.',
      examples: [1_000],
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
            pattern: '^[wW][sS][sS]?://',
            label: 'a URL that begins with ws:// or wss://',
            omitWhenUnset: true,
            description: 'WebSocket URL of the node: new blocks come by eth_subscribe, and the node is not polled.',
            examples: ['wss://node.example.com'],
          },
          methods: {
            type: 'array',
            minItems: 1,
            items: { type: 'string', minLength: 1 },
            description: 'The methods that the node answers, by name or by a pattern in which `*` is any text; all methods if absent.',
            examples: [['eth_*', 'trace_*']],
          },
          archive: {
            type: 'boolean',
            default: false,
            description: 'The node has the state of every block: it is requested first for state older than 128 blocks.',
          },
          history: {
            type: 'integer',
            minimum: 1,
            description:
              'The node has the state of so many newest blocks only: it is not requested for older state that another node may have.',
            examples: [128],
          },
          weight: {
            type: 'number',
            minimum: 0,
            whenOthersHaveIt: 'its weight is 1',
            description:
              'Share of the calls, relative to the other weights; 1 where only other nodes have one. 0: only when no other node can answer.',
            examples: [3],
          },
        },
      },
      description: 'Own nodes, in order of preference; with weights, the nodes share the calls.',
    },
    partner: {
      ...nodeSchema,
      properties: {
        ...nodeSchema.properties,
        methods: {
          type: 'array',
          items: { type: 'string' },
          default: ['eth_getLogs'],
          description: 'Methods that may be forwarded to the partner when no own node can answer.',
        },
        when: {
          type: 'string',
          enum: ['outage', 'header'],
          default: 'outage',
          description: 'outage: forward when no own node can answer. header: only if the caller also sent Enable-Failover: true.',
        },
      },
      description: 'A provider that gets calls in an outage, for plans with `forwarding: true`.',
    },
    maxLag: {
      type: 'integer',
      minimum: 1,
      description:
        'Nodes that are more than so many blocks behind the head are requested last. Default: 5, or the blocks of 10 s if those are more.',
      examples: [10],
    },
    hedge: {
      type: 'boolean',
      default: true,
      description: 'Request a second node too when a cheap call takes longer than usual for its node; the first answer counts.',
    },
    breaker: {
      type: 'object',
      properties: {
        openFor: {
          type: 'string',
          format: 'duration',
          minimum: '1ms',
          usual: { min: '10ms', max: '1d' },
          default: '1s',
          description: 'How long the breaker stays open before the node is probed with eth_blockNumber.',
        },
      },
      default: {},
      description: 'Circuit breakers, one per upstream and class of method.',
    },
  },
  required: ['upstreams'],
} as const

export type FailoverOptions = Infer<typeof failoverOptions>

/** What the gateway sets itself, or what is about one connection. */
const reservedHeaders: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'traceparent',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

interface TargetOptions {
  readonly url: Secret
  readonly headers?: Readonly<Record<string, Secret>>
  readonly compression: boolean
}

/** Reports what of the options of the node at `path` would have no effect, or could not be sent to it. Values of headers are never shown. */
export const checkTargetOptions = ({ compression, ...node }: TargetOptions, path: Path, report: ReportProblem): void => {
  if (compression && /^ws/i.test(node.url.reveal())) report([...path, 'compression'], '`compression` applies only to http:// and https://')
  checkHeaders(node, path, report)
}

const checkHeaders = ({ url, headers = {} }: Omit<TargetOptions, 'compression'>, path: Path, report: ReportProblem): void => {
  const names = Object.keys(headers).map(name => name.toLowerCase())
  const { username, password } = new URL(url.reveal())
  Object.entries(headers).forEach(([name, value], i) => {
    const problem = nameProblem(name, names.slice(0, i)) ?? valueProblem(value)
    if (problem !== undefined) report([...path, 'headers', name], problem)
    else if (name.toLowerCase() === 'authorization' && username + password !== '')
      report([...path, 'headers', name], `\`${name}\` and the user of \`url\` are both credentials: remove one of them`)
  })
}

const nameProblem = (name: string, namesBefore: readonly string[]): string | undefined => {
  const lowerCase = name.toLowerCase()
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name)) return `"${name}" is not the name of an HTTP header, such as X-Api-Key`
  if (reservedHeaders.has(lowerCase) || lowerCase.startsWith('sec-websocket-')) return `the gateway sets the header \`${name}\` itself`
  return namesBefore.includes(lowerCase) ? `duplicate header \`${name}\`: upper and lower case make no difference` : undefined
}

/** Tabs, and visible ASCII characters. */
const valueProblem = (value: Secret): string | undefined =>
  /^[\t\x20-\x7e]*$/.test(value.reveal()) ? undefined : 'the value of a header must be one line of ASCII characters'
