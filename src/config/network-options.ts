import type { ObjectSchema } from '../plugin/options-schema.ts'

/** The keys of a network's file; the options of a step depend on its plugin. */
export const networkSchema = {
  type: 'object',
  description: 'One network: its hosts, and the plugins that each call passes through.',
  properties: {
    network: {
      type: 'string',
      format: 'kebab-case',
      description: 'The name of the network, in kebab-case; the file has the same name.',
      examples: ['base-mainnet'],
    },
    chainId: { type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'The chain id (EIP-155).', examples: [8453] },
    blockTime: {
      type: 'string',
      format: 'duration',
      minimum: '1ms',
      usual: { min: '10ms', max: '1h' },
      description: 'The usual time between two blocks.',
      examples: ['12s', '250ms'],
    },
    devNode: {
      type: 'boolean',
      default: false,
      description:
        'The nodes are for development, as anvil, Hardhat and Ganache: nothing is cached, and heights and blocks may go back, as the node says. ' +
        'Without it the height that callers are given goes back only when no node has the block any more.',
    },
    methods: { type: 'string', description: 'The method table: the name of a file in methods/, without .yaml.', examples: ['ethereum'] },
    optional: {
      type: 'boolean',
      default: false,
      description: 'Omit upstreams and other options whose variables are not set; with too few left, do not serve the network.',
    },
    hosts: {
      type: 'array',
      minItems: 1,
      description: 'The hosts that callers use for this network, without port. No other network may list them.',
      items: { type: 'string', format: 'host', description: 'A host name or an IP address.' },
      examples: [['base-mainnet.rpc.example.com']],
    },
    pipeline: {
      type: 'array',
      minItems: 1,
      description: 'The plugins that each call passes through, outermost first; the last one answers.',
      items: { description: 'A map with one key, the name of a plugin; its value is the options of the plugin.' },
      examples: [[{ envelope: {} }, { upstream: {} }]],
    },
  },
  required: ['network', 'chainId', 'blockTime', 'methods', 'hosts', 'pipeline'],
} as const satisfies ObjectSchema
