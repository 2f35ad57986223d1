import { readFileSync } from 'node:fs'
import type { Test } from 'tap'
import { plugins } from '../../../plugins/index.ts'
import { dryRunNetworks } from '../../../src/core/dry-run.ts'
import { runCheck } from '../../cli/run-command.ts'

/** Parts of a text, each with its replacement. */
type Edits = readonly (readonly [found: string, replacement: string])[]

/** One mistake in a configuration without problems, and the answers of `check` that an operator needs. */
export interface Mistake {
  readonly mistake: string
  /** Edits of networks/arb.yaml. */
  readonly network?: Edits
  /** Edits of gateway.yaml. */
  readonly gateway?: Edits
  /** Further files, or other texts of these. */
  readonly files?: Readonly<Record<string, string>>
  readonly lineEnd?: '\r\n'
  readonly online?: true
  readonly env?: Readonly<Record<string, string>>
  /** `file:line:column: message`, and after ` -> ` the hint; none where `check` rightly says nothing. */
  readonly answers: readonly string[]
}

export const networkText = `network: arb
chainId: 42161
blockTime: 250ms
methods: ethereum
hosts: [arb.rpc.test]

pipeline:
  - envelope: {}
  - key-auth: {}
  - network-access: {}
  - credits: {}
  - params: {}
  - cache: { maxBytes: 64MiB }
  - failover:
      upstreams:
        - { name: own, url: "http://127.0.0.1:1/own" }
        - { name: second, url: "http://127.0.0.1:1/second" }
  - upstream: { timeout: 10s }
`

const gatewayText = `listen:
  rpc: 127.0.0.1:23500
  admin: 127.0.0.1:23502
store: lmdb:../data
memory: 64MiB
workers: 1
plans:
  core: { dailyCredits: 3000000 }
`

export const pluginText = `const plugin = {
  name: 'p',
  summary: 'Counts calls.',
  options: {
    type: 'object',
    properties: { calls: { type: 'integer', minimum: 1, description: 'Most calls.' } },
  },
  create: () => (call, next) => next(call),
}
export default plugin
`

/** The text with its edits; throws where a part does not occur, so that no case tests the text without its mistake. */
export const edit = (text: string, ...edits: Edits): string =>
  edits.reduce((edited, [found, replacement]) => {
    if (!edited.includes(found)) throw new Error(`the text has no ${JSON.stringify(found)}`)
    return edited.replace(found, () => replacement)
  }, text)

const methodTable = readFileSync('configs/methods/ethereum.yaml', 'utf8')

/** What `check` says about the mistake, in the form of `answers`. */
export const answersTo = async (t: Test, mistake: Mistake): Promise<readonly string[]> => {
  const { network = [], gateway = [], files = {}, lineEnd = '\n', online = false, env = {} } = mistake
  const { out } = await runCheck(
    t,
    {
      'methods/ethereum.yaml': methodTable,
      'gateway.yaml': edit(gatewayText, ...gateway),
      'networks/arb.yaml': edit(networkText, ...network).replaceAll('\n', lineEnd),
      ...files,
    },
    { dryRun: dryRunNetworks, plugins, env, args: ['--json', ...(online ? ['--online'] : [])] },
  )
  const report = JSON.parse(out.join('')) as Report
  return [...report.problems, ...report.warnings, ...report.failures.map(message => ({ message }))].map(formatAnswer)
}

interface Answer {
  readonly message: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
  readonly hint?: string
}

/** What `check --json` prints. */
interface Report {
  readonly problems: readonly Answer[]
  readonly warnings: readonly Answer[]
  readonly failures: readonly string[]
}

const formatAnswer = ({ file, line, column, message, hint }: Answer): string =>
  `${file === undefined ? '' : `${file}:${line}:${column}: `}${message}${hint ? ` -> ${hint}` : ''}`
