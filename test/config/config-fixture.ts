import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { definePlugin } from '../../src/plugin/plugin.ts'
import type { AnyPlugin } from '../../src/plugin/plugin.ts'

const handle = (): never => {
  throw new Error('the loader runs no plugin')
}
const upstream = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, description: 'What it is called.' },
    url: { type: 'string', format: 'url', description: 'Where it is.' },
    feed: { type: 'string', format: 'url', omitWhenUnset: true, description: 'Where it tells of itself.' },
    weight: { type: 'integer', minimum: 1, maximum: 9, default: 1, description: 'Its share of the calls.' },
  },
  required: ['name', 'url'],
  omitWhenUnset: true,
} as const

/** Plugins that do nothing, with everything that the loader checks. */
export const stubPlugins: readonly AnyPlugin[] = [
  definePlugin({
    name: 'shape',
    summary: 'Reads the request.',
    writes: ['request'],
    create: () => handle,
    options: {
      type: 'object',
      properties: {
        strict: { type: 'boolean', default: false, description: 'Insist.' },
        mark: { type: 'string', pattern: '^[!-~]+$', label: 'a mark of ASCII characters', description: 'Is put on requests.' },
      },
    },
  }),
  definePlugin({
    name: 'login',
    summary: 'Finds the account.',
    writes: ['key', 'account'],
    create: () => handle,
    options: { type: 'object', properties: {} },
  }),
  definePlugin({
    name: 'charge',
    summary: 'Takes credits.',
    reads: ['account'],
    once: true,
    create: () => handle,
    options: {
      type: 'object',
      properties: {
        costs: {
          type: 'object',
          additionalProperties: { type: 'integer', minimum: 0 },
          default: {},
          description: 'By method.',
        },
        rate: { type: 'number', exclusiveMinimum: 0, description: 'What a credit costs.' },
      },
    },
  }),
  definePlugin({
    name: 'rate-limit',
    summary: 'Slows an account down.',
    reads: ['account'],
    create: () => handle,
    options: {
      type: 'object',
      properties: {
        calls: { type: 'integer', minimum: 1, description: 'Calls allowed in each window.' },
        window: { type: 'string', format: 'duration', default: '1s', description: 'Length of the window.' },
        burst: { type: 'integer', minimum: 1, description: 'Most calls at once.' },
        exempt: { type: 'array', items: { type: 'string' }, default: [], description: 'Accounts without a limit.' },
      },
      required: ['calls'],
    },
    check({ calls, burst }, report) {
      if (burst !== undefined && burst < calls) report(['burst'], `burst (${burst}) is less than calls (${calls})`)
    },
  }),
  definePlugin({
    name: 'retry',
    summary: 'Asks again.',
    repeats: true,
    create: () => handle,
    options: {
      type: 'object',
      properties: { times: { type: 'integer', minimum: 1, default: 2, description: 'How often.' } },
    },
  }),
  definePlugin({
    name: 'cache',
    summary: 'Remembers.',
    reads: ['request'],
    shares: true,
    create: () => handle,
    options: {
      type: 'object',
      properties: {
        maxBytes: { type: 'string', format: 'size', default: '1MiB', description: 'Most memory.' },
        keep: { type: 'string', enum: ['never', 'head', 'block'], default: 'head', description: 'How long.' },
        file: { type: 'string', format: 'path', description: 'Where it is written down.' },
        redis: { type: 'string', format: 'redis', description: 'Who shares it.' },
        tag: { type: 'string', pattern: '^[a-z]+$', description: 'Marks its entries.' },
        rules: { description: 'Anything.' },
      },
    },
  }),
  definePlugin({
    name: 'route',
    summary: 'Chooses the node.',
    reads: ['request'],
    writes: ['target'],
    create: () => handle,
    options: {
      type: 'object',
      properties: {
        upstreams: { type: 'array', items: upstream, minItems: 1, description: 'Our own nodes.' },
        partner: { ...upstream, description: 'Somebody else.' },
      },
      required: ['upstreams'],
    },
  }),
  definePlugin({
    name: 'forward',
    summary: 'Chooses the node by plan.',
    reads: ['account'],
    writes: ['target'],
    create: () => handle,
    options: { type: 'object', properties: {} },
    vary: ({ account }) => String(account.plan.forwarding),
  }),
  definePlugin({
    name: 'ask',
    summary: 'Asks the node.',
    reads: ['request'],
    terminal: true,
    create: () => handle,
    options: {
      type: 'object',
      properties: { timeout: { type: 'string', format: 'duration', default: '10s', description: 'Longest wait.' } },
    },
  }),
]

/** Writes the files of a configuration and returns their directory; adds a gateway.yaml and a method table unless given. */
export const writeConfig = (dir: string, files: Readonly<Record<string, string>>): string => {
  for (const [file, text] of Object.entries({ ...defaultFiles, ...files })) {
    mkdirSync(dirname(join(dir, file)), { recursive: true })
    if (text.trim() !== absentFile) writeFileSync(join(dir, file), text)
  }
  return dir
}

/** As the content of a file: the file does not exist. */
export const absentFile = '(absent)'

/** A network without problems, with this pipeline. */
export const networkYaml = (name: string, pipeline = '  - shape:\n  - ask:\n'): string => `network: ${name}
chainId: 1
blockTime: 12s
methods: ethereum
hosts: [${name}.example.org]
pipeline:
${pipeline}`

const defaultFiles: Readonly<Record<string, string>> = {
  'gateway.yaml': 'store: lmdb:data\nplans: { core: { dailyCredits: 1000 } }\n',
  'methods/ethereum.yaml': `defaults: { cost: 80, cache: never, class: light, idempotent: true }
methods:
  eth_blockNumber: { params: [] }
`,
}
