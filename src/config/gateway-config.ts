import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ObjectSchema } from '../plugin/options-schema.ts'
import { defaultRpcAddress, gatewayRules, parseWorkerCount } from './gateway-rules.ts'
import { parseAddress } from './addresses.ts'
import { isDirectory } from './config-files.ts'
import { unsetVariableProblems } from './optional-variables.ts'
import { checkOptions } from './check-options.ts'
import type { Problem } from './problem.ts'
import { readYamlFile } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'
import { parseStoreAddress } from './store-address.ts'
import type { GatewayConfig } from './types.ts'
import type { Env } from './variables.ts'

/** What gateway.yaml may say. */
const gatewaySchema = {
  type: 'object',
  description: 'What all networks of one gateway share.',
  properties: {
    listen: {
      type: 'object',
      description: 'Where the gateway listens: host:port. An IPv6 host stands in brackets; port 0 takes any free port.',
      properties: {
        rpc: {
          type: 'string',
          default: defaultRpcAddress,
          description: 'JSON-RPC over HTTP and WebSocket; the Host header names the network.',
        },
        portal: { type: 'string', description: 'The dashboard for developers. Nothing listens there yet.' },
        admin: { type: 'string', description: 'Health and metrics: /livez, /readyz, /metrics. None by default.' },
      },
      default: {},
    },
    store: {
      type: 'string',
      description:
        'Where accounts, keys and credits are kept: lmdb:PATH, a directory, relative to this file, for one ' +
        'machine; or a Redis for many, redis://USER:PASSWORD@HOST:PORT/DATABASE (rediss:// with TLS).',
    },
    workers: { description: 'Processes that share the port: an integer, or auto for one per core; 1 by default.' },
    memory: {
      type: 'string',
      format: 'size',
      default: '512MiB',
      description: 'Memory of all caches together, shared out over networks and workers.',
    },
    plans: {
      type: 'object',
      description: 'What accounts may be sold, by name.',
      additionalProperties: {
        type: 'object',
        description: 'One plan.',
        properties: {
          dailyCredits: {
            type: 'integer',
            minimum: 1,
            maximum: Number.MAX_SAFE_INTEGER,
            description: 'Credits that an account may use in one day, UTC.',
          },
          forwarding: {
            type: 'boolean',
            default: false,
            description: 'May eth_getLogs go to a partner provider while no upstream of our own can answer?',
          },
        },
        required: ['dailyCredits'],
      },
    },
    limits: {
      type: 'object',
      description: 'What callers may send at once, and what answers to them may take.',
      properties: {
        body: { type: 'string', format: 'size', default: '1MiB', description: 'Longest body of an HTTP request.' },
        frame: { type: 'string', format: 'size', default: '1MiB', description: 'Longest WebSocket message.' },
        batch: { type: 'integer', minimum: 1, default: 100, description: 'Most calls in one batch.' },
        depth: { type: 'integer', minimum: 1, default: 64, description: 'Deepest nesting of a message.' },
        batchReply: { type: 'string', format: 'size', default: '64MiB', description: 'Longest answer to a batch.' },
        inFlight: {
          type: 'string',
          format: 'size',
          default: '512MiB',
          description:
            'Most bytes that answers take together, while they come in from nodes and while they wait for callers to ' +
            'read them, shared out over the workers.',
        },
      },
      default: {},
    },
    usage: {
      type: 'object',
      description: 'Counts of calls by account, key, network, method and outcome, for `tollgate usage`.',
      properties: {
        retention: { type: 'string', format: 'duration', default: '90d', description: 'How long counts are stored.' },
      },
      default: {},
    },
    log: {
      type: 'string',
      enum: ['debug', 'info', 'warn', 'error', 'silent'],
      default: 'info',
      description: 'The least important level that is logged.',
    },
    drain: {
      type: 'object',
      description: 'What happens between SIGTERM and the end of the process.',
      properties: {
        grace: {
          type: 'string',
          format: 'duration',
          default: '0s',
          description: 'How long new calls are still accepted while /readyz already answers 503, so that load balancers take notice.',
        },
        timeout: { type: 'string', format: 'duration', default: '10s', description: 'How long calls in flight may then take to finish.' },
      },
      default: {},
    },
  },
  required: ['store', 'plans'],
} as const satisfies ObjectSchema

/** Reads `<dir>/gateway.yaml`. The config is there exactly when there are no problems. */
export const readGatewayConfig = (
  dir: string,
  env: Env,
): {
  readonly config: GatewayConfig | undefined
  readonly problems: readonly Problem[]
} => {
  const source = readYamlFile(join(dir, 'gateway.yaml'), env)
  if (source.value === undefined) return { config: undefined, problems: missingFileProblems(source) }
  const { options, problems: schemaProblems } = checkOptions({ source, namePath: [], owner: '', schema: gatewaySchema })
  const ruleProblems = gatewayRules.flatMap(rule => rule(source))
  const problems = [...source.problems, ...schemaProblems, ...ruleProblems, ...unsetVariableProblems(source)]
  const store = parseStoreAddress(options?.store ?? '', dirname(source.path))
  if (options === undefined || store === undefined || problems.length > 0) return { config: undefined, problems }

  const {
    listen: { rpc, portal, admin },
    workers,
    plans,
    memory,
    limits,
    log,
    drain,
    usage,
  } = options
  const config: GatewayConfig = {
    listen: {
      rpc: parseAddress(rpc),
      ...(portal !== undefined && { portal: parseAddress(portal) }),
      ...(admin !== undefined && { admin: parseAddress(admin) }),
    },
    store,
    plans: Object.fromEntries(Object.entries(plans).map(([name, plan]) => [name, { name, ...plan }])),
    workers: parseWorkerCount(workers) ?? 1,
    memory,
    limits,
    log,
    drain,
    usage,
  }
  return { config, problems }
}

const missingFileProblems = ({ path, problems }: YamlFile): readonly Problem[] => {
  const hint = !isDirectory(dirname(path))
    ? 'give the directory of the configuration with --config DIR'
    : existsSync(path.replace(/yaml$/, 'yml'))
      ? 'rename gateway.yml to gateway.yaml'
      : 'it says at least where the store is and which plans there are: copy the one that the gateway comes with'
  return existsSync(path) ? problems : problems.map(problem => ({ ...problem, hint }))
}
