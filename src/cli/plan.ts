import { sizeUnits } from '../util/units.ts'
import { formatCount } from '../util/units.ts'
import { jsonOption, readArguments } from './args.ts'
import { UsageError, commandSummaries, exitCodes } from './command.ts'
import type { Command, CommandOption } from './command.ts'
import { estimateStoreLoad } from './store-load.ts'
import type { PlannedLoad, StoreLoad } from './store-load.ts'
import { formatFields } from './table-output.ts'

const options = {
  accounts: { type: 'string', placeholder: 'COUNT', description: 'Accounts, such as 50000 or 1e6.' },
  calls: { type: 'string', placeholder: 'RATE', description: 'Calls of all accounts together, such as 50000/s.' },
  gateways: { type: 'string', placeholder: 'COUNT', default: '2', description: 'Machines that run a gateway.' },
  workers: { type: 'string', placeholder: 'COUNT', default: '2', description: 'Workers of each gateway.' },
  active: {
    type: 'string',
    placeholder: 'COUNT',
    description: 'Accounts that call within ten seconds. Default: all, or one for each of these calls.',
  },
  groups: {
    type: 'string',
    placeholder: 'COUNT',
    default: '3',
    description: 'Pairs of key, network and method that an account uses at a time.',
  },
  hours: { type: 'string', placeholder: 'COUNT', default: '8', description: 'Hours of a day in which an account calls.' },
  retention: { type: 'string', placeholder: 'DAYS', default: '90', description: 'Days for which usage is kept.' },
  json: jsonOption,
} as const satisfies Readonly<Record<string, CommandOption>>

/** Says what a Redis must be able to do, before anything is bought. */
export const planCommand: Command = {
  name: 'plan',
  summary: commandSummaries.plan,
  usage: [
    'plan --accounts COUNT --calls RATE [--gateways COUNT] [--workers COUNT] [--active COUNT] [--groups COUNT] [--hours COUNT] [--retention DAYS] [--json]',
  ],
  positionals: {},
  options,
  examples: {
    'plan --accounts 20000 --calls 3000/s': 'what two gateways ask of one Redis',
    'plan --accounts 1e6 --calls 50000/s --gateways 100 --active 50000': 'of a cluster',
  },
  async run(args, { out }) {
    const { values } = readArguments(args, [], options)
    const callsPerSecond = readNumber('calls', values.calls?.replace(/\/s$/, ''))
    const accounts = readNumber('accounts', values.accounts)
    const load: PlannedLoad = {
      accounts,
      callsPerSecond,
      activeAccounts: Math.min(accounts, values.active === undefined ? 10 * callsPerSecond : readNumber('active', values.active)),
      gateways: readNumber('gateways', values.gateways),
      workers: readNumber('workers', values.workers),
      groups: readNumber('groups', values.groups),
      hoursPerDay: Math.min(24, readNumber('hours', values.hours)),
      retentionDays: readNumber('retention', values.retention),
    }
    const estimate = estimateStoreLoad(load)
    if (values.json) out(JSON.stringify({ ...load, ...estimate, nodes: nodesFor(estimate) }, undefined, 2))
    else for (const line of [...formatFields(describe(load, estimate)), '', ...adviceFor(estimate)]) out(line)
    return exitCodes.ok
  },
}

const readNumber = (name: keyof typeof options, text: string | undefined): number => {
  if (text === undefined) throw new UsageError(`missing --${name}`)
  const number = Number(text)
  if (!/^\d/.test(text) || !(number >= 1) || !(number <= 1e12))
    throw new UsageError(`--${name} must be a number from 1 on, such as 50000 or 1e6, not "${text}"`)
  return number
}

/** More would make callers wait in bursts. */
const maxCoresOfNode = 0.5

const nodesFor = ({ ledgerCores, usageCores }: StoreLoad): number => Math.max(1, Math.ceil((ledgerCores + usageCores) / maxCoresOfNode))

const describe = (load: PlannedLoad, estimate: StoreLoad): Readonly<Record<string, string>> => ({
  'accounts that call within 10 s': formatCount(Math.round(load.activeAccounts)),
  'leases a second': formatCount(Math.round(estimate.leasesPerSecond)),
  'rows of usage a second': formatCount(Math.round(estimate.usageRowsPerSecond)),
  'CPU of Redis for leases': `${(100 * estimate.ledgerCores).toFixed(1)} % of a core`,
  'CPU of Redis for usage': `${(100 * estimate.usageCores).toFixed(1)} % of a core`,
  'nodes of Redis': `${nodesFor(estimate)}, of which each is half idle`,
  network: `${formatBytes(estimate.bytesPerSecond)}/s`,
  connections: formatCount(estimate.connections),
  'memory of accounts and leases': formatBytes(estimate.ledgerBytes),
  'memory of usage': formatBytes(estimate.usageBytes),
})

const formatBytes = (bytes: number): string => {
  const [unit = 'B', factor = 1] = Object.entries(sizeUnits).findLast(([, each]) => bytes >= each) ?? []
  return `${(bytes / factor).toFixed(1)} ${unit}`
}

const adviceFor = (estimate: StoreLoad): readonly string[] => [
  nodesFor(estimate) === 1 ? 'One Redis is enough.' : 'A cluster is needed.',
  'CPU may be half or twice as much on another machine; rows and leases are within a third. docs/scale.md says how they were measured.',
]
