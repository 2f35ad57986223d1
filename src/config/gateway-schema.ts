import type { ObjectSchema } from '../plugin/options-schema.ts'
import { accessLogRules } from '../services/log-settings.ts'
import { logLevels } from '../services/log-settings.ts'
import { rateLimitProperties } from '../services/rate-limit-options.ts'
import { jwtSchema } from './jwt-options.ts'
import { limitsSchema } from './limits-options.ts'
import { listenSchema } from './listen-options.ts'
import { browserUrlPattern, portalSchema } from './portal-options.ts'
import { adminTlsSchema } from './tls-options.ts'

/** The keys of gateway.yaml. */
export const gatewaySchema = {
  type: 'object',
  description: 'Settings that all networks of one gateway share.',
  properties: {
    listen: listenSchema,
    portal: portalSchema,
    admin: {
      type: 'object',
      description: 'The admin listener.',
      properties: {
        token: {
          type: 'string',
          format: 'secret',
          description:
            'Authorizes /log-level, /access-log, /reload and the API of accounts below /api/v1, as `Authorization: Bearer TOKEN`, and signs in at ' +
            '/operator. Without a token these paths do not exist.',
          examples: ['${ADMIN_TOKEN}'],
        },
        tls: adminTlsSchema,
        url: {
          type: 'string',
          pattern: browserUrlPattern,
          label: 'a URL such as https://tollgate-admin.example.org',
          description:
            'The URL by which browsers reach the admin listener, behind a proxy. Requests may name its host, and with https the session cookie ' +
            'is secure.',
          examples: ['https://tollgate-admin.example.org'],
        },
        hosts: {
          type: 'array',
          items: { type: 'string' },
          default: [],
          description:
            'Hosts, without port, that requests to the admin listener may name besides loopback names and the address that they come in on. ' +
            '/livez, /readyz and /metrics take any host.',
          examples: [['tollgate-admin.internal']],
        },
      },
      default: {},
    },
    store: {
      type: 'string',
      description:
        'Where accounts, keys and credits are stored: lmdb:PATH, a directory, relative to this file, for one machine; ' +
        'or Redis for several machines, redis://USER:PASSWORD@HOST:PORT/DATABASE (rediss:// with TLS).',
      examples: ['lmdb:../data', 'redis://127.0.0.1:6379'],
    },
    workers: {
      description: 'Worker processes that share the port: an integer, or auto for one per core; 1 by default.',
      examples: [4, 'auto'],
    },
    watch: {
      type: 'boolean',
      default: true,
      description: 'Whether a change of the files of the configuration reloads it, as SIGHUP does.',
    },
    memory: {
      type: 'string',
      format: 'size',
      usual: { min: '1MiB', max: '256GiB' },
      default: '512MiB',
      description: 'Memory of all caches together, divided among networks and workers.',
    },
    plans: {
      type: 'object',
      description: 'The plans that accounts may have, by name.',
      additionalProperties: {
        type: 'object',
        description:
          'One plan. `rate`, `burst`, `creditRate` and `creditBurst` limit each account in networks with the plugin `rate-limit`.',
        properties: {
          dailyCredits: {
            type: 'integer',
            minimum: 1,
            maximum: Number.MAX_SAFE_INTEGER,
            description: 'Credits that an account may use in one day, UTC.',
            examples: [3_000_000],
          },
          forwarding: {
            type: 'boolean',
            default: false,
            description: 'Whether eth_getLogs may go to a partner provider during an outage of the own upstreams.',
          },
          ...rateLimitProperties,
        },
        required: ['dailyCredits'],
      },
    },
    jwt: jwtSchema,
    limits: limitsSchema,
    usage: {
      type: 'object',
      description: 'Counts of calls by account, key, network, method, outcome and hour, for `tollgate usage`.',
      properties: {
        retention: {
          type: 'string',
          format: 'duration',
          usual: { min: '1d', max: '3650d' },
          default: '90d',
          description: 'How long counts are stored.',
        },
      },
      default: {},
    },
    log: {
      type: 'string',
      enum: logLevels,
      default: 'info',
      description: 'The lowest level that is logged.',
    },
    accessLog: {
      type: 'object',
      description: 'One line for each call.',
      properties: {
        file: {
          type: 'string',
          description:
            'Where lines are written: stdout, or a path relative to this file, which is opened anew on SIGUSR2. None by default.',
          examples: ['stdout', '/var/log/tollgate/access.log'],
        },
        sample: {
          type: 'number',
          minimum: 0,
          maximum: 1,
          default: 1,
          description: 'The share of calls that is logged, from 0 to 1.',
        },
        always: {
          type: 'array',
          items: { type: 'string', enum: accessLogRules },
          default: ['errors', 'slow'],
          description:
            'Calls that are logged whatever `sample` is: errors are calls with a JSON-RPC error, and HTTP statuses of 400 and above; slow ' +
            'are calls that took `slow` or longer.',
        },
        slow: {
          type: 'string',
          format: 'duration',
          usual: { min: '1ms', max: '10m' },
          default: '1s',
          description: 'From this duration on a call is slow.',
        },
      },
      default: {},
    },
    metrics: {
      type: 'object',
      description: 'Metrics that are measured only where they are asked for.',
      properties: {
        plugins: {
          type: 'boolean',
          default: false,
          description: 'Measures what each plugin takes of a call: 0.4 us of CPU per plugin and call.',
        },
      },
      default: {},
    },
    drain: {
      type: 'object',
      description: 'What happens between SIGTERM and the end of the process.',
      properties: {
        grace: {
          type: 'string',
          format: 'duration',
          usual: { min: '100ms', max: '1h' },
          default: '5s',
          description:
            'How long calls are still served after SIGTERM while /readyz already answers 503, so that load balancers take notice. ' +
            'SIGINT skips it.',
        },
        timeout: {
          type: 'string',
          format: 'duration',
          usual: { min: '100ms', max: '1h' },
          default: '10s',
          description: 'How long calls in flight may then take to finish.',
        },
      },
      default: {},
    },
  },
  required: ['store', 'plans'],
} as const satisfies ObjectSchema
