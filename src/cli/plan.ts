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
  calls: { type: 'string', placeholder: 'RATE', description: 'Calls of all accounts together in a second, such as 50000/s.' },
  gateways: { type: 'string', placeholder: 'COUNT', default: '2', description: 'Machines that run a gateway.' },
  workers: { type: 'string', placeholder: 'COUNT', default: '2', description: 'Workers of each gateway.' },
  active: { type: 'string', placeholder: 'COUNT', description: 'Accounts that these calls come from. Default: all.' },
  spread: {
    type: 'string',
    placeholder: 'COUNT',
    description: 'Gateways that one account calls. Default: all; fewer where a load balancer hashes the key.',
  },
  groups: {
    type: 'string',
    placeholder: 'COUNT',
    default: '3',
    description: 'Pairs of key, network and method that an account uses at a time.',
  },
  changes: { type: 'string', placeholder: 'COUNT', default: '60', description: 'Changes of accounts and keys in an hour.' },
  hours: { type: 'string', placeholder: 'COUNT', default: '8', description: 'Hours of a day in which an account calls.' },
  retention: { type: 'string', placeholder: 'DAYS', default: '90', description: 'Days for which usage is kept, such as 90 or 90d.' },
  json: jsonOption,
} as const satisfies Readonly<Record<string, CommandOption>>

/** Says what a Redis must be able to do, before anything is bought. */
export const planCommand: Command = {
  name: 'plan',
  summary: commandSummaries.plan,
  usage: [
    'plan --accounts COUNT --calls RATE [--gateways COUNT] [--workers COUNT] [--active COUNT] [--spread COUNT] [--groups COUNT] [--changes COUNT] [--hours COUNT] [--retention DAYS] [--json]',
  ],
  positionals: {},
  options,
  examples: {
    'plan --accounts 20000 --calls 3000/s': 'what two gateways ask of one Redis',
    'plan --accounts 1e6 --calls 50000/s --gateways 100 --spread 2': 'of a cluster, behind a load balancer that hashes keys',
  },
  async run(args, { out }) {
    const { values } = readArguments(args, [], options)
    const accounts = readNumber('accounts', values.accounts)
    const gateways = readNumber('gateways', values.gateways)
    const load: PlannedLoad = {
      accounts,
      callsPerSecond: readNumber('calls', values.calls),
      activeAccounts: readNumber('active', values.active ?? values.accounts, accounts),
      gateways,
      gatewaysOfAccount: readNumber('spread', values.spread ?? values.gateways, gateways),
      workers: readNumber('workers', values.workers),
      groups: readNumber('groups', values.groups),
      changesPerHour: readNumber('changes', values.changes),
      hoursPerDay: readNumber('hours', values.hours),
      retentionDays: readNumber('retention', values.retention),
    }
    const estimate = estimateStoreLoad(load)
    if (values.json) out(JSON.stringify({ ...load, ...estimate, shards: nodesFor(estimate) }, undefined, 2))
    else for (const line of [...formatFields(describe(load, estimate)), '', ...adviceFor(load, estimate)]) out(line)
    return exitCodes.ok
  },
}

interface OptionRange {
  readonly least: number
  readonly most: number
  readonly isWhole: boolean
  /** That may follow. */
  readonly unit?: string
  readonly example: string
}

const count: OptionRange = { least: 1, most: 1e12, isWhole: true, example: '50000 or 1e6' }
const few: OptionRange = { ...count, most: 1e5, example: '2' }

const ranges = {
  accounts: count,
  active: count,
  calls: { least: 0.001, most: 1e12, isWhole: false, unit: '/s', example: '50000/s or 0.5/s' },
  gateways: few,
  spread: few,
  workers: few,
  groups: few,
  changes: { ...count, least: 0, example: '60' },
  hours: { least: 1, most: 24, isWhole: false, example: '8' },
  retention: { ...few, unit: 'd', example: '90d' },
} as const satisfies Readonly<Record<string, OptionRange>>

const numberPattern = /^\d+(\.\d+)?(e\d+)?$/i

const readNumber = (name: keyof typeof ranges, text: string | undefined, most: number = ranges[name].most): number => {
  if (text === undefined) throw new UsageError(`missing --${name}`)
  const { least, isWhole, unit = '', example }: OptionRange = ranges[name]
  const digits = text.endsWith(unit) ? text.slice(0, text.length - unit.length) : text
  const number = numberPattern.test(digits) ? Number(digits) : NaN
  if (number >= least && number <= most && (!isWhole || Number.isInteger(number))) return number
  throw new UsageError(
    `--${name} must be a ${isWhole ? 'whole number' : 'number'} from ${least} to ${formatCount(most)}, such as ${example}, not "${text}"`,
  )
}

/** More would make callers wait in bursts. */
const maxCoresOfNode = 0.5

/** Nodes that share leases and usage. */
const nodesFor = ({ ledgerCores, usageCores }: StoreLoad): number => Math.max(1, Math.ceil((ledgerCores + usageCores) / maxCoresOfNode))

const describe = (load: PlannedLoad, estimate: StoreLoad): Readonly<Record<string, string>> => {
  const count = (value: number): string => formatCount(Math.round(value))
  const cores = (value: number): string => (value < 1 ? `${(100 * value).toFixed(1)} % of a core` : `${value.toFixed(1)} cores`)
  const memory = estimate.ledgerBytes + estimate.usageBytes
  return {
    'leases a second': count(estimate.leasesPerSecond),
    'calls that wait for a lease': `${(100 * estimate.waitingCalls).toFixed(1)} %`,
    'rows of usage a second': count(estimate.usageRowsPerSecond),
    'keys read a second': count(estimate.keyReadsPerSecond),
    'scripts a second': count(estimate.requestsPerSecond),
    'CPU of Redis for leases': cores(estimate.ledgerCores),
    'CPU of Redis for usage': cores(estimate.usageCores),
    'CPU of the node with accounts and keys': cores(estimate.keyCores),
    network: `${formatBytes(estimate.bytesPerSecond)}/s`,
    connections: count(estimate.connections),
    'memory of accounts and leases': formatBytes(estimate.ledgerBytes),
    'memory of usage': `${formatBytes(estimate.usageBytes)}, after ${load.retentionDays} days`,
    shards: `${nodesFor(estimate)}, of which each is half idle and has ${formatBytes(memory / nodesFor(estimate))}`,
  }
}

const formatBytes = (bytes: number): string => {
  const [unit = 'B', factor = 1] = Object.entries(sizeUnits).findLast(([, each]) => bytes >= each) ?? []
  return `${(bytes / factor).toFixed(1)} ${unit}`
}

const maxWaitingCalls = 0.005
const maxNodeBytes = 16 * sizeUnits.GiB

/** What to turn. */
const adviceFor = ({ gatewaysOfAccount }: PlannedLoad, estimate: StoreLoad): readonly string[] => {
  const { usageCores, ledgerCores, keyCores, waitingCalls, usageBytes, ledgerBytes, connections } = estimate
  const bytesOfNode = (usageBytes + ledgerBytes) / nodesFor(estimate)
  const shared = [
    ...(keyCores > maxCoresOfNode ? ['One node has all accounts and keys: it is too busy.'] : []),
    ...(waitingCalls > maxWaitingCalls ? ['Calls that wait for a lease take a round trip more.'] : []),
  ]
  const canHash = gatewaysOfAccount > 1 && (shared.length > 0 || ledgerCores + usageCores > maxCoresOfNode)
  return [
    nodesFor(estimate) === 1 ? 'One Redis is enough.' : 'A cluster is needed.',
    ...shared,
    ...(canHash ? [hashKeys] : []),
    ...(bytesOfNode > maxNodeBytes ? ['Memory: a shorter `usage.retention`, or more shards.'] : []),
    ...(connections > maxConnections ? ['Connections: raise `maxclients` of Redis, or run fewer gateways with more workers.'] : []),
    accuracy,
  ]
}

/** `maxclients` of Redis, unless it is set. */
const maxConnections = 10_000
const hashKeys = 'A load balancer that hashes the API key lowers all of these: an account calls few gateways then (`--spread`).'
const accuracy =
  'Leases, rows, network and memory are within a third of what was measured; CPU is within half, and may be twice as much on another machine (docs/scale.md).'
