import { createNameMatcher } from '../../src/plugin/plugin.ts'
import type { CallContext, Infer, Origin, ReportProblem } from '../../src/plugin/plugin.ts'
import { policyPattern, quorumOf, toPolicies } from './policies.ts'
import { provableMethods } from './provable-methods.ts'
import { checkUpstreams } from './upstreams-check.ts'

const factor = { type: 'string', pattern: '^[0-9]+(\\.[0-9]+)?x$', label: 'a factor such as 2x', default: '1x', examples: ['2x'] } as const

const options = {
  type: 'object',
  properties: {
    methods: {
      type: 'object',
      additionalProperties: { type: 'string', pattern: policyPattern, label: 'off, check, proof, or a quorum such as 2 of 3' },
      default: {},
      description:
        'Policy by method, or by a pattern in which `*` is any text; the first that matches counts. off: answers pass on as they are. check: wrong answers are refused, the policy of all other methods. proof, for state, blocks, transactions, receipts and logs: they are answered with what headers prove, and other methods are checked. A quorum such as `2 of 3`: so many of so many upstreams must have the same answer.',
      examples: [{ eth_getLogs: 'off', eth_getBalance: 'proof', eth_call: '2 of 3' }],
    },
    agree: {
      type: 'integer',
      minimum: 1,
      description:
        'For `proof`: so many upstreams must have the same header at its height. Default: a majority of those that answer, and 2 at least where there are 2.',
      examples: [2],
    },
    beacon: {
      type: 'object',
      properties: {
        url: {
          type: 'string',
          format: 'url',
          pattern: '^[hH][tT][tT][pP][sS]?://',
          label: 'a URL that begins with http:// or https://',
          description: 'URL of the Beacon API of a consensus node, which keeps data for light clients.',
          examples: ['http://beacon.example.com:5052'],
        },
        headers: {
          type: 'object',
          additionalProperties: { type: 'string', format: 'secret' },
          default: {},
          description: 'HTTP headers of each request to this node. Values are secrets.',
          examples: [{ 'X-Api-Key': '${BEACON_KEY}' }],
        },
        checkpoint: {
          type: 'string',
          pattern: '^0x[0-9a-fA-F]{64}$',
          label: 'the root of a beacon block: 0x and 64 hex digits',
          description: 'Root of a finalized beacon block, from a source that you trust: all that follows is proven by it.',
          examples: ['0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a'],
        },
        maxCheckpointAge: {
          type: 'string',
          format: 'duration',
          usual: { min: '1d', max: '30d' },
          default: '14d',
          description:
            'An older checkpoint proves nothing: validators who have left since may sign another chain. Counts from the last final block that is known: the checkpoint, or a newer one that the store has from before a restart.',
        },
        otherwise: {
          type: 'string',
          enum: ['refuse', 'agree'],
          default: 'refuse',
          description:
            'What becomes of calls about blocks that the beacon chain says nothing about: newer than the newest signed one, more than 8,191 blocks older, or any while the consensus node does not answer. refuse: -32002. agree: upstreams must agree on the header, as without beacon, and X-Tollgate-Verified says quorum.',
        },
      },
      required: ['url', 'checkpoint'],
      description:
        'For `proof`: the sync committee of the beacon chain says which headers are right, in place of upstreams that agree. For Ethereum, Sepolia and Hoodi.',
    },
    costs: {
      type: 'object',
      properties: {
        proof: { ...factor, description: 'Of calls whose answers are proven.' },
        quorum: { ...factor, description: 'Of calls that a quorum answers.' },
      },
      default: {},
      description: 'Factors by which calls cost more credits, by what their results were verified by.',
      examples: [{ proof: '2x' }],
    },
    readmit: {
      type: 'boolean',
      default: true,
      description:
        'A node that lied about what is proven gets no calls of the class of the method until it has answered right 100 times beside others. false: until operators clear its evidence.',
    },
    maxBlocks: {
      type: 'integer',
      minimum: 1,
      default: 32,
      description: 'Most blocks of one eth_getLogs with the policy `proof`; queries over more blocks are checked.',
    },
    maxProofBytes: {
      type: 'string',
      format: 'size',
      usual: { min: '256KiB', max: '1GiB' },
      default: '32MiB',
      description:
        'Most bytes of receipts and transactions, as blocks have them, that one eth_getLogs with the policy `proof` needs; queries that need more are checked. A full block of Ethereum has up to 1 MiB.',
    },
    maxBytes: {
      type: 'string',
      format: 'size',
      usual: { min: '16KiB', max: '64MiB' },
      default: '1MiB',
      description: 'Longer results are not checked: 1 MiB takes about 15 ms of the event loop.',
    },
  },
} as const

type VerifyOptions = Infer<typeof options>

/** All of the plugin that a configuration is checked against; the rest is loaded where a pipeline names it. */
export const definition = {
  name: 'verify',
  summary:
    'Checks blocks, transactions, receipts and logs of nodes by their hashes, roots, blooms and positions; asks another node in place of one that is wrong.',
  options,
  reads: ['request', 'target', 'upstreams'],
  writes: ['request', 'target'],
  variesBy: ['request', 'key'],
  /** What was verified by another policy, before a reload or by another gateway, is no answer. */
  vary({ request, key }: Pick<CallContext, 'request' | 'key'>, options: VerifyOptions, { headers }: Origin): string {
    const policies = toPolicies(options)
    return policies.variantOf(policies.ofCall(request.method, key, headers))
  },
  check({ methods }: VerifyOptions, report: ReportProblem): void {
    for (const [name, policy] of Object.entries(methods)) {
      if (policy === 'proof' && !provableMethods.some(createNameMatcher([name])))
        report(['methods', name], `nothing is proven of ${name}: \`proof\` is for ${provableMethods.join(', ')}`)
      const { required, asked } = quorumOf(policy) ?? { required: 1, asked: 1 }
      if (required > asked) report(['methods', name], `\`${policy}\` asks fewer upstreams than must have the same answer`)
      else if (2 * required <= asked)
        report(
          ['methods', name],
          `\`${policy}\` is no majority, so that two answers could have it: write \`${Math.floor(asked / 2) + 1} of ${asked}\``,
        )
    }
  },
  verifies: true,
  checkPipeline: checkUpstreams,
} as const
